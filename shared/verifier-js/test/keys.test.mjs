import assert from "node:assert/strict";
import { test } from "node:test";
import { isLowOrder } from "../src/keys.mjs";

const P = 2n ** 255n - 19n;
const mod = (a) => ((a % P) + P) % P;
const D = mod(-121665n * inverse(121666n));

function power(base, exponent) {
  let result = 1n;
  for (let b = mod(base), e = exponent; e > 0n; e >>= 1n, b = mod(b * b))
    if (e & 1n) result = mod(result * b);
  return result;
}

function inverse(a) {
  return power(a, P - 2n);
}

/** y of twice a point with this y, from the curve's equation alone: x^2 = (y^2 - 1) / (d y^2 + 1). */
function doubled(y) {
  const yy = mod(y * y);
  const xx = mod((yy - 1n) * inverse(mod(D * yy + 1n)));
  return mod((yy + xx) * inverse(mod(1n - D * mod(xx * yy))));
}

function little(number) {
  return Buffer.from(number.toString(16).padStart(64, "0"), "hex").reverse();
}

test("the points of low order are those that double to the neutral one", () => {
  // A point of order 8 doubles to one of order 4, whose y is 0: so x^2 = -y^2, and the curve says d y^4 + 2 y^2 = 1.
  const r = root(mod(1n + D));
  const squares = [mod((r - 1n) * inverse(D)), mod((-r - 1n) * inverse(D))];
  const ys = new Set(
    squares
      .map(root)
      .filter((y) => y !== null)
      .flatMap((y) => [y, mod(-y)]),
  );
  assert.equal(ys.size, 2);
  for (const y of ys) assert.equal(doubled(doubled(doubled(y))), 1n);
  const found = [0n, 1n, P - 1n, ...ys, P, P + 1n].flatMap((y) => [y, y + 2n ** 255n]);
  assert.equal(found.length, 14);
  for (const encoding of found) assert.ok(isLowOrder(little(encoding)), encoding.toString(16));
  for (const encoding of [2n, 3n, 4n, P - 2n, P + 2n]) assert.ok(!isLowOrder(little(encoding)));
});

/** A square root modulo 2^255 - 19, or null. */
function root(a) {
  const candidate = power(a, (P + 3n) / 8n);
  for (const one of [candidate, mod(candidate * power(2n, (P - 1n) / 4n))])
    if (mod(one * one) === a) return one;
  return null;
}
