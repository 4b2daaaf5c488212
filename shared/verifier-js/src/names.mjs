/** Actors, labels, steps and addresses (spec/record.md, "Names"). */
import { points, sha256 } from "./bytes.mjs";

const PLAIN = /[A-Za-z0-9 \-_.~<>()[\]{}=+*&$!,;'|^]/;
const MOST_ADDRESS = 1024;
const MOST_PART = 256;

/** UTF-8, a lone surrogate as its three bytes. @param {string} text @returns {Buffer} */
function utf8(text) {
  if (text.isWellFormed()) return Buffer.from(text);
  const parts = [...text].map((point) => {
    const unit = point.charCodeAt(0);
    if (point.isWellFormed()) return Buffer.from(point);
    return Buffer.of(0xe0 | (unit >> 12), 0x80 | ((unit >> 6) & 0x3f), 0x80 | (unit & 0x3f));
  });
  return Buffer.concat(parts);
}

const short = (text) => sha256(utf8(text)).slice(0, 32);
const start = (text, count) => [...text].slice(0, count).join("");

/** Percent-encoding of a name. @param {string} name */
export function encodeName(name) {
  return [...name]
    .map((point) => {
      if (PLAIN.test(point)) return point;
      return [...utf8(point)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join("");
    })
    .join("");
}

/** @param {string} name @returns {string} what stands as `content.name` */
export function label(name) {
  const whole = [...name]
    .map((point) => (point.isWellFormed() ? point : `\\u${point.charCodeAt(0).toString(16)}`))
    .join("");
  return points(whole) <= 512 ? whole : `${start(whole, 400)}~${short(whole)}`;
}

/** @param {string[]} path names, the enclosing ones first */
export function actor(path) {
  const names = path.map(encodeName);
  const whole = names.join("/");
  if (whole.length <= MOST_ADDRESS) return whole;
  const last = names[names.length - 1];
  return last.length > 512 ? `~${short(whole)}` : `~${short(whole)}/${last}`;
}

function part(text) {
  const encoded = encodeName(text);
  return encoded.length <= MOST_PART ? encoded : `${encodeName(start(text, 24))}~${short(encoded)}`;
}

/** @param {{op: string, name: string, key: string, occurrence: number}} given */
export function step({ op, name, key, occurrence }) {
  const keyed = key === "" ? "" : `@${part(key)}`;
  return `${op}:${part(name)}${keyed}${occurrence > 1 ? `#${occurrence}` : ""}`;
}

/** @param {string} above address of the enclosing call, or "" @param {string} last a step */
export function address(above, last) {
  const whole = above === "" ? last : `${above}/${last}`;
  return points(whole) <= MOST_ADDRESS ? whole : `~${short(above)}/${last}`;
}
