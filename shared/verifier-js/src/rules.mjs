/** The rules of a trust policy for one verified statement (spec/trust.md, "Verifying with a policy"). */
import { covers } from "./patterns.mjs";

const WORTH = {
  outside: ["CF-TRUST-051", "a statement stands outside the time of its key"],
  revoked: ["CF-TRUST-052", "a statement is by a key that was compromised by then"],
  unproven: [
    "CF-TRUST-053",
    "a statement is by a superseded or compromised key, and nothing else says how old it is",
  ],
};

/**
 * The first rule that fails, or null.
 * @param {import("./policy.mjs").Policy} policy
 * @param {string} kind
 * @param {any} predicate
 * @param {string} identity of the log
 * @param {Set<string>} verified fingerprints of the keys with valid signatures
 * @returns {{code: string, message: string} | null}
 */
export function failedRule(policy, kind, predicate, identity, verified) {
  const { authority, issued, proof, sender } = predicate;
  const inside = ["archive", "binding", "weights"].includes(kind) || proof === "recorded";
  const keys = kind === "weights" ? [predicate.key] : inside ? [identity] : [sender.key];
  if (proof === "recorded" && policy.keys.has(sender.key)) keys.push(sender.key);
  if (!policy.keys.has(keys[0]) && keys[0] === identity) return null; // the log's identity, of which CF-VERIFY-032 said so
  for (const key of keys) {
    const [code, message] = WORTH[policy.worth(key, issued)] ?? [];
    if (code !== undefined) return { code, message };
  }
  if (inside) return null;
  if (!speaks(policy, predicate, verified))
    return { code: "CF-TRUST-050", message: "a statement is by keys that do not speak for its sender" };
  if (kind !== "handoff") return null;
  const { roots } = policy.predicate;
  const starts = authority !== undefined && authority.from === undefined;
  if (starts && roots !== undefined && !roots.some((root) => covers(root, sender.actor)))
    return { code: "CF-TRUST-055", message: "a handoff starts authority, and its sender may not" };
  if (!policy.allows(predicate))
    return { code: "CF-TRUST-056", message: "the policy does not permit this handoff" };
  return null;
}

function speaks(policy, { sender, issued }, verified) {
  const agent = policy.agent(sender.actor);
  if (agent === null || !agent.keys.includes(sender.key)) return false;
  const valid = agent.keys.filter((key) => verified.has(key) && policy.worth(key, issued) === "valid");
  return valid.length >= agent.threshold;
}
