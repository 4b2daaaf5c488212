/** Patterns of capabilities and actors (spec/trust.md, "Patterns"). */
import { points } from "./bytes.mjs";

/** Whether what was granted covers what is asked for. @param {string} granted @param {string} asked */
export function covers(granted, asked) {
  if (granted === asked) return true;
  if (granted !== "*" && !granted.endsWith("/*") && !granted.endsWith(":*")) return false;
  const start = granted.slice(0, -1);
  return asked.length > start.length && asked.startsWith(start);
}

/** @param {unknown} value whether a text is a capability, or a pattern of them */
export function isCapability(value) {
  if (typeof value !== "string" || !/^[!#-[\]-~]{1,256}$/.test(value)) return false;
  const segments = value.split(/[:/]/);
  return segments.every((one, index) => {
    if (one === "" || one === "." || one === "..") return false;
    return !one.includes("*") || (one === "*" && index === segments.length - 1);
  });
}

/** @param {unknown} value whether a text is an actor's path, or one whose last name is `*` */
export function isActorPattern(value) {
  if (typeof value !== "string" || value === "" || points(value) > 1024) return false;
  const names = value.split("/");
  return names.every(
    (name, index) => name !== "" && (!name.includes("*") || (name === "*" && index === names.length - 1)),
  );
}

/** Whether texts are sorted by code point, each once. @param {string[]} texts */
export function isSorted(texts) {
  const bytes = texts.map((one) => Buffer.from(one));
  return bytes.every((one, index) => index === 0 || Buffer.compare(bytes[index - 1], one) < 0);
}
