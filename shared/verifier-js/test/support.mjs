/** What several tests need: vectors, and evidence written out of them. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { dumps } from "../src/canonical.mjs";
import { Keyring, headName } from "../src/keyring.mjs";

/** @param {string} name @returns {any} a file of shared/vectors */
export function vectors(name) {
  return JSON.parse(readFileSync(new URL(`../../vectors/${name}.json`, import.meta.url), "utf8"));
}

/** Runs `action` with a new folder, which is removed afterwards. @param {(folder: string) => any} action */
export function inFolder(action) {
  const folder = mkdtempSync(join(tmpdir(), "counterfoil-verifier-"));
  try {
    return action(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Writes a case's evidence. @param {string} root @param {{files: Record<string, string>, folders?: string[]}} given */
export function writeEvidence(root, { files, folders = [] }) {
  mkdirSync(root, { recursive: true });
  for (const [path, base64] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), Buffer.from(base64, "base64"));
  }
  for (const folder of folders) mkdirSync(join(root, folder), { recursive: true });
}

/** The text of a keyring file. @param {string[]} names `~name`: by fingerprint alone; `name+`: an admin @param {any} keys */
export function keyringText(names, keys) {
  const pins = names.map((name) => {
    const { fingerprint, spki } = keys[name.replace(/[~+]/, "")];
    const admin = name.endsWith("+") ? { admin: true } : {};
    return [fingerprint, name.startsWith("~") ? admin : { ...admin, spki }];
  });
  return `${dumps({ pins: Object.fromEntries(pins), version: 0 })}\n`;
}

/** A keyring folder as a case wants it; what the case says of the other place stands beside the evidence. */
export function writeHome(home, root, { keyring, heads = [], there }, keys) {
  const beside = join(dirname(root), "there");
  if (there !== undefined) writeEvidence(beside, there);
  const places = { ".": root, there: beside };
  mkdirSync(join(home, "heads"), { recursive: true });
  writeFileSync(join(home, "keyring.json"), keyringText(keyring, keys));
  for (const head of heads) {
    const evidence = places[head.evidence] ?? head.evidence;
    writeFileSync(join(home, "heads", headName(head.origin)), dumps({ ...head, evidence, version: 0 }));
  }
  return Keyring.open(home);
}

/** The code an action refuses with, or "". @param {() => any} action */
export function codeOf(action) {
  try {
    action();
    return "";
  } catch (error) {
    if (typeof error.code !== "string" || !error.code.startsWith("CF-")) throw error;
    return error.code;
  }
}
