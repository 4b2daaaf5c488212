/** The command line: `counterfoil-verify PATH --keyring DIR [--json] [--run R]`. */
import { readFileSync, statSync } from "node:fs";
import { parseArgs } from "node:util";
import { isBundle, verifyBundle } from "./bundle.mjs";
import { CounterfoilError, refusalOf } from "./errors.mjs";
import { verifyEvidence } from "./evidence.mjs";
import { EXIT, gravity } from "./findings.mjs";
import { Keyring } from "./keyring.mjs";
import { Policy } from "./policy.mjs";

const USAGE = `Usage: counterfoil-verify PATH [--keyring DIR] [--policy FILE] [--json] [--run RUN]

Say whether evidence (a folder) or a bundle (a file) can be believed.

  --keyring DIR  a home folder: keyring.json, and heads/ if it remembers any;
                 or a keyring file alone. Without it no key is trusted.
  --policy FILE  a trust policy: its keys take the place of the pinned ones, if
                 admins pinned in the keyring signed it.
  --run RUN      judge only the logs that hold this run: its identifier, or
                 how that begins.
  --json         print JSON.

Examples:
  counterfoil-verify evidence/ --keyring auditor/
  counterfoil-verify evidence/ --keyring auditor/ --run 4f1c --json
  counterfoil-verify run.bundle --keyring auditor/ --policy policy.json

Exit codes: 0 intact, 3 broken, 4 incomplete, 5 cannot tell, 2 usage.
`;

/** @type {[string, string, string][]} */
const COUNTED = [
  ["logs", "log", "logs"],
  ["records", "record", "records"],
  ["statements", "statement", "statements"],
  ["runs", "run", "runs"],
  ["handoffs", "handoff", "handoffs"],
  ["blobs", "blob", "blobs"],
  ["losses", "loss", "losses"],
  ["open", "open call", "open calls"],
  ["tail", "entry after the last checkpoint", "entries after the last checkpoint"],
];
const ALWAYS = 6;

/**
 * @param {string[]} argv
 * @param {(text: string) => void} print
 * @param {(text: string) => void} complain
 * @returns {number} the exit code
 */
export function main(argv, print, complain) {
  try {
    const { path, keyring, policy, json, run, help } = options(argv);
    if (help) {
      print(USAGE);
      return 0;
    }
    const keys = keyring === null ? new Keyring() : Keyring.open(keyring);
    const result = verify(path, keys, { run, policy: policy === null ? null : readPolicy(policy) });
    print(json ? `${JSON.stringify(document(result), null, 2)}\n` : lines(result));
    return EXIT[result.verdict];
  } catch (error) {
    const told = asRefusal(error);
    complain(`error ${[told.code, told.where].filter(Boolean).join(" ")}: ${told.message}\n`);
    if (told.hint !== "") complain(`  hint: ${told.hint}\n`);
    return 2;
  }
}

/** What went wrong, as a refusal: a person reads no stack. @param {any} error @returns {CounterfoilError} */
function asRefusal(error) {
  if (error instanceof CounterfoilError) return error;
  if (typeof error?.syscall === "string") return refusalOf(error);
  const what = error?.code ?? error?.name ?? "unknown";
  return new CounterfoilError("CF-CLI-005", `an error in this verifier itself: ${what}`, {
    hint: "the evidence was not judged; please report it",
  });
}

function options(argv) {
  const usage = (message) =>
    new CounterfoilError("CF-CLI-001", message, {
      where: "counterfoil-verify",
      hint: "counterfoil-verify --help",
    });
  let given;
  try {
    given = parseArgs({
      args: argv,
      allowPositionals: true,
      options: {
        keyring: { type: "string" },
        policy: { type: "string" },
        run: { type: "string" },
        json: { type: "boolean" },
        help: { type: "boolean", short: "h" },
      },
    });
  } catch (error) {
    // Node's own sentence names the option; what follows it is advice for other programs.
    throw usage(String(error.message).split(". ")[0]);
  }
  const { values, positionals } = given;
  const help = values.help === true;
  if (!help && positionals.length !== 1) throw usage("name one evidence folder or bundle");
  if (values.run === "") throw usage("--run needs a run");
  const { keyring = null, policy = null, run = null } = values;
  return { path: positionals[0], keyring, policy, json: values.json === true, run, help };
}

function readPolicy(path) {
  try {
    if (statSync(path).size > 524_288)
      throw new CounterfoilError("CF-TRUST-001", "a policy is larger than 512 KiB", { where: path });
    return Policy.parse(readFileSync(path));
  } catch (error) {
    if (error instanceof CounterfoilError) throw error;
    throw new CounterfoilError("CF-TRUST-001", "the policy cannot be read", {
      where: path,
      hint: "check its name and permissions",
    });
  }
}

function verify(path, keyring, { run, policy }) {
  let stat;
  try {
    stat = statSync(path);
  } catch {
    throw new CounterfoilError("CF-STORE-002", "there is no evidence here", {
      where: path,
      hint: "name the folder of a run, or a bundle",
    });
  }
  if (stat.isDirectory()) return verifyEvidence(path, keyring, { run, policy });
  if (!isBundle(path))
    throw new CounterfoilError("CF-STORE-003", "the path is neither a folder nor a bundle", {
      where: path,
      hint: "name the folder of a run, or a bundle",
    });
  if (run !== null)
    throw new CounterfoilError("CF-CLI-001", "--run is for evidence: a bundle holds what it was cut for", {
      where: path,
      hint: "leave out --run",
    });
  return verifyBundle(path, keyring, { policy });
}

function document({ verdict, findings, notes, counts }) {
  return {
    verdict,
    findings,
    notes,
    counts: Object.fromEntries(COUNTED.map(([name]) => [name, counts[name]])),
  };
}

function lines({ verdict, findings, notes, counts }) {
  const told = [
    ...findings.map((finding) => [gravity(finding.code), finding]),
    ...notes.map((note) => ["note", note]),
  ].map(([word, { code, where, message, hint }]) => {
    const line = `${word} ${[code, where].filter(Boolean).join(" ")}: ${message}\n`;
    return hint === "" ? line : `${line}  hint: ${hint}\n`;
  });
  const parts = COUNTED.filter(([name], index) => index < ALWAYS || counts[name] > 0).map(
    ([name, one, many]) => `${counts[name]} ${counts[name] === 1 ? one : many}`,
  );
  return `${told.join("")}${verdict}: ${parts.join(", ")}\n`;
}
