/**
 * The only module that calls the server. The same functions could be answered by a WebAssembly build.
 *
 * Every function is asynchronous and throws an ApiError if there is no good answer. A call aborts an older one of the
 * same kind that is still under way; the older one then throws an ApiError whose code is "aborted": ignore it.
 *
 * @typedef {{what: string, got?: any, wanted?: any, cause?: any, where?: any, code?: string,
 *            sequence?: number|null, rule?: string|null, line?: number|null}} Problem
 */

/** A request that failed, with the fields of the JSON error of the server: what, got, wanted, cause, and where. */
export class ApiError extends Error {
  /** @param {Problem} problem @param {number} [status] HTTP status; 0: no answer from the server */
  constructor(problem, status = 0) {
    super(problem.what);
    this.name = "ApiError";
    this.status = status;
    this.code = problem.code ?? "unknown";
    this.what = problem.what;
    this.got = problem.got ?? null;
    this.wanted = problem.wanted ?? null;
    this.cause = problem.cause ?? null;
    this.where = problem.where ?? null;
    this.sequence = problem.sequence ?? null;
    this.rule = problem.rule ?? null;
    this.line = problem.line ?? null;
  }

  /** A newer call took the place of this one. */
  get aborted() {
    return this.code === "aborted";
  }

  /** The server did not answer at all. */
  get unreachable() {
    return this.code === "unreachable";
  }
}

/** @type {Map<string, AbortController>} the call under way of each kind */
const running = new Map();

/**
 * @param {string} kind   calls of one kind replace each other
 * @param {string} path
 * @param {any} [body]    sent as JSON with POST; without it: GET
 * @returns {Promise<any>}
 */
async function call(kind, path, body) {
  running.get(kind)?.abort();
  const controller = new AbortController();
  running.set(kind, controller);
  try {
    const response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: controller.signal,
    });
    const answer = await response.json().catch((error) => {
      if (controller.signal.aborted) throw error;
      return null;
    });
    if (!response.ok || answer === null) throw new ApiError(problemOf(answer, response), response.status);
    return answer;
  } catch (error) {
    if (error instanceof ApiError) throw error;
    if (controller.signal.aborted) throw new ApiError({ code: "aborted", what: "A newer request replaced this one." });
    throw new ApiError({
      code: "unreachable", what: "The server does not answer.", cause: "Was it stopped? The page tries again by itself.",
    });
  } finally {
    if (running.get(kind) === controller) running.delete(kind);
  }
}

/** @param {any} answer @param {Response} response @returns {Problem} */
function problemOf(answer, response) {
  const failure = answer?.error;
  if (failure && typeof failure === "object" && typeof failure.what === "string") return failure;
  return { code: `http-${response.status}`, what: `The server answered ${response.status} ${response.statusText}`.trim() + "." };
}

export const api = {
  /** @returns {Promise<any>} name, labels, types, default rules, sample texts, limits */
  model: () => call("model", "model"),
  /** @returns {Promise<any>} {sentences: [{sentence, example, summary}]} */
  sentences: () => call("sentences", "sentences"),
  /** @param {any} body text or tokens, gold, rules, k, picture. A picture does not abort an ordinary call. */
  explain: (body) => call(body.picture ? "picture" : "explain", "explain", body),
  /** @param {string} rules @returns {Promise<any>} findings, rules, examples; never fails for bad rules */
  check: (rules) => call("check", "rules/check", { rules }),
  /** @param {string} rules @returns {Promise<any>} {examples: [{line, text, passed, message, ...}]} */
  test: (rules) => call("test", "rules/test", { rules }),
  /** @param {string} name of the file @param {string} text its content @param {string} [format] else by its name and content */
  data: (name, text, format) => call("data", "data", { name, text, format }),
  /** @returns {Promise<any>} the sample data of the server; ApiError with status 404 if there is none */
  sample: () => call("data", "data/sample"),
  /** @param {string} id of the data @param {string} rules @param {number} [budget] seconds for single rules */
  evaluate: (id, rules, budget) => call("evaluate", "evaluate", { data: id, rules, budget }),
  /** @param {any} body as of POST /suggest */
  suggest: (body) => call("suggest", "suggest", body),
  /** @param {string} data its id @param {string} rules */
  curves: (data, rules) => call("curves", "curves", { data, rules }),
  /** @param {any} body as of POST /jobs */
  startJob: (body) => call("job", "jobs", body),
  /** @param {string} job @param {boolean} stop */
  askJob: (job, stop) => call("job", "jobs/state", { job, stop }),
  /** Stop a job although the page goes away. @param {string} job */
  leaveJob: (job) => navigator.sendBeacon("jobs/state", new Blob([JSON.stringify({ job, stop: true })], { type: "application/json" })),
  /** @returns {Promise<any>} the file of the rules */
  rulesFile: () => call("file", "rules/file"),
  /** @param {string} text @param {string} fingerprint of the file as it was read @param {boolean} overwrite */
  saveRules: (text, fingerprint, overwrite) => call("save", "rules/save", { text, fingerprint, overwrite }),
  /** @param {string} name @param {string} content in base64 */
  openModel: (name, content) => call("model", "model/open", { name, content }),
  /** @param {any} body as of POST /tag; calls with another rule set are of another kind */
  tag: (body) => call(`tag ${body.rule_set ?? ""}`, "tag", body),
};
