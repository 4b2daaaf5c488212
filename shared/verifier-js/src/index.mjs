/** The second verifier of Counterfoil's formats. */
export { Envelope } from "./dsse.mjs";
export { CounterfoilError } from "./errors.mjs";
export { verifyEvidence } from "./evidence.mjs";
export { EXIT } from "./findings.mjs";
export { Keyring } from "./keyring.mjs";
export { parseStatement } from "./statements.mjs";
