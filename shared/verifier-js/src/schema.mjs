/**
 * Shapes of JSON values, written as tables. A shape is a function that says whether a value has it; nothing is
 * converted, and a member that a table does not name is refused.
 * @typedef {(value: unknown) => boolean} Shape
 */
import { points } from "./bytes.mjs";
import { isCount, isObject } from "./canonical.mjs";

/** @param {number} most @param {number} [least] in Unicode code points @returns {Shape} */
export const text =
  (most, least = 1) =>
  (value) => {
    if (typeof value !== "string" || value.length < least) return false;
    return value.length <= most || (value.length <= most * 2 && points(value) <= most);
  };

/** @param {number} digits @returns {Shape} lower-case hex */
export const hex = (digits) => {
  const form = new RegExp(`^[0-9a-f]{${digits}}$`);
  return (value) => typeof value === "string" && value.length === digits && form.test(value);
};

/** @param {number} [least] @param {number} [most] @returns {Shape} */
export const count =
  (least = 0, most = Number.MAX_SAFE_INTEGER) =>
  (value) =>
    isCount(value, least) && value <= most;

/** @type {Shape} */
export const flag = (value) => typeof value === "boolean";

/** @param {...string} words @returns {Shape} */
export const oneOf =
  (...words) =>
  (value) =>
    typeof value === "string" && words.includes(value);

/** @param {Shape} of @param {number} [least] @param {number} [most] @returns {Shape} */
export const list =
  (of, least = 0, most = Infinity) =>
  (value) =>
    Array.isArray(value) && value.length >= least && value.length <= most && value.every(of);

/**
 * An object with all of `required`, any of `optional`, and nothing else.
 * @param {Record<string, Shape>} required
 * @param {Record<string, Shape>} [optional]
 * @returns {Shape}
 */
export function object(required, optional = {}) {
  const names = Object.keys(required);
  return (value) => {
    if (!isObject(value) || !names.every((name) => Object.hasOwn(value, name))) return false;
    return Object.keys(value).every((name) => {
      const shape = Object.hasOwn(required, name)
        ? required[name]
        : Object.hasOwn(optional, name)
          ? optional[name]
          : null;
      return shape !== null && shape(value[name]);
    });
  };
}

/** @param {...Shape} shapes @returns {Shape} any of them */
export const either =
  (...shapes) =>
  (value) =>
    shapes.some((shape) => shape(value));

/** @param {Shape} shape @param {(value: any) => boolean} more @returns {Shape} the shape, and a rule about it */
export const that = (shape, more) => (value) => shape(value) && more(value);
