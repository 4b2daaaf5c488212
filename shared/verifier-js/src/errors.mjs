/** A refusal with a stable code of spec/errors.md. Its message never holds values, keys or text of the input. */
export class CounterfoilError extends Error {
  /**
   * @param {string} code a code of spec/errors.md
   * @param {string} message what is wrong, in one sentence
   * @param {{where?: string, hint?: string}} [more] the place, and what to do
   */
  constructor(code, message, more = {}) {
    super(message);
    this.name = "CounterfoilError";
    this.code = code;
    this.where = more.where ?? "";
    this.hint = more.hint ?? "";
  }
}

/**
 * Runs `action`; gives its value, or the error it refused with. Errors that are no refusal pass through.
 * @template T
 * @param {() => T} action
 * @returns {{value: T, error: null} | {value: null, error: CounterfoilError}}
 */
export function attempt(action) {
  try {
    return { value: action(), error: null };
  } catch (error) {
    if (error instanceof CounterfoilError) return { value: null, error };
    throw error;
  }
}

/** Whether the system did not let something be read: that says nothing of what is there. @param {any} error */
export function isUnread(error) {
  return error instanceof CounterfoilError && error.code.startsWith("CF-STORE-");
}

/** The refusal for what the system said of a file. @param {any} error @param {string} [where] @returns {CounterfoilError} */
export function refusalOf(error, where = error.path ?? "") {
  const denied = error.code === "EACCES" || error.code === "EPERM";
  return new CounterfoilError(
    denied ? "CF-STORE-006" : "CF-STORE-001",
    `cannot read the evidence: ${error.code}`,
    { where, hint: denied ? "verify as a user who may read it" : "check the path and the disk" },
  );
}
