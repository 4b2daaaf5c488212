/** Authority that only narrows, taint that only grows, and heads that parties tell each other (spec/trust.md). */
import { covers } from "./patterns.mjs";

const SKEW = 60_000;

/**
 * Whether a handoff narrows its grant.
 * @param {any} handoff predicate of a handoff with `authority.from`
 * @param {any} grant predicate of the handoff that `authority.from` names
 */
export function narrows(handoff, grant) {
  const { authority, issued, sender, taint = [] } = handoff;
  if (grant.proof !== "countersigned" || grant.authority === undefined || grant.audience !== sender.actor)
    return false;
  return (
    authority.allow.every((asked) => grant.authority.allow.some((granted) => covers(granted, asked))) &&
    authority.maxDepth < grant.authority.maxDepth &&
    authority.expires <= grant.authority.expires &&
    (grant.taint ?? []).every((one) => taint.includes(one)) &&
    issued >= grant.issued - SKEW
  );
}

/**
 * The heads that a statement tells, its own first.
 * @param {any} predicate of a handoff or receipt
 * @returns {{origin: string, size: number, root: string, own: boolean}[]} `own`: the word of that log's owner
 */
export function headsOf({ own, seen = [], sender }) {
  const told = seen.map((head) => ({ ...head, own: false }));
  if (own !== undefined && own.origin.startsWith(`${sender.key}/`)) told.unshift({ ...own, own: true });
  return told;
}

/**
 * Of heads that owners told, those with another root than the first of their origin and size; each root once.
 * @template {{origin: string, size: number, root: string}} H
 * @param {H[]} heads
 * @returns {H[]}
 */
export function forks(heads) {
  const first = new Map();
  const said = new Set();
  return heads.filter(({ origin, size, root }) => {
    const place = `${origin} ${size}`;
    if (!first.has(place)) first.set(place, root);
    if (first.get(place) === root || said.has(`${place} ${root}`)) return false;
    said.add(`${place} ${root}`);
    return true;
  });
}

/**
 * The logs with an acceptance that an earlier log of the same identity has as well, once for each.
 * @param {{name: string, identity: {fingerprint: string} | null, acceptances: Set<string>}[]} logs in their order
 * @returns {string[]} names
 */
export function acceptedAgain(logs) {
  const taken = new Set();
  return logs.flatMap(({ name, identity, acceptances }) =>
    [...acceptances].flatMap((handoff) => {
      const place = `${identity?.fingerprint} ${handoff}`;
      const again = taken.has(place);
      taken.add(place);
      return again ? [name] : [];
    }),
  );
}
