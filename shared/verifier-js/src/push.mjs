/** `list.push(...more)` would put all of `more` on the stack, which long lists overflow. */

/** @template T @param {T[]} list @param {Iterable<T>} more */
export function pushAll(list, more) {
  for (const one of more) list.push(one);
}
