/**
 * The state of the page, and its form in a URL. Panes render the state; what the user does changes it.
 *
 * @typedef {{id: string|null, tokens: string[], labels: (string|null)[]|null, columns?: Object<string, string[]>,
 *            text?: string, starts?: number[]}} Sequence
 *   labels: null if the label is not known; columns: missing if there are only tokens; text, starts: the text and where
 *   tokens begin in it (in code points), missing if it is not known
 * @typedef {{id: string, name: string, has_gold: boolean, sequences: Sequence[], sample?: boolean,
 *            warnings?: string[]}} Data
 *   sample: the sample data of the server, so a permalink can name it
 * @typedef {{rules: string, evaluation: any}} Baseline   rules that the present ones are compared with
 *
 * @typedef {Object} State
 * @property {any} model            answer of GET /model, null until it is there
 * @property {any[]} sentences      rule sentences for completion
 * @property {string} text          text that the user wrote or pasted
 * @property {Data|null} data       labelled sequences, if some are loaded
 * @property {number} index         the sequence of `data` that is shown; -1: `text` is shown (data stays loaded)
 * @property {string} rules         the text of the .rules file: the single source of truth about the rules
 * @property {any} check            last answer of POST /rules/check, with the `text` that it is about
 * @property {any} explain          last good answer of POST /explain
 * @property {any} explainError     ApiError of the last /explain, null if it went well; `explain` is then an older one
 * @property {any} evaluation       answer of POST /evaluate, null without data
 * @property {any} evaluationError  ApiError of the last /evaluate, or null
 * @property {any} tests            answer of POST /rules/test: {examples: [...]}; null if there are none or on an error
 * @property {any} testsError       ApiError of the last /rules/test, or null
 * @property {string} filter        which sequences are listed (see filters.js)
 * @property {string} search        words that they contain
 * @property {"order"|"loss"|"change"} sort
 * @property {{}|null} browse       a new object: the list must be shown
 * @property {Baseline|null} baseline
 * @property {any} curves           answer of POST /curves for `rules`, or null
 * @property {any} file             answer of GET /rules/file: what the file of the rules holds; null without one
 * @property {{line: number}|null} goto   a line (from 1) of the rules that the editor must show, select and focus.
 *                                  A new object each time, so setting the same line twice is seen twice.
 * @property {{wanted: boolean, svg: string|null, error: any}} picture   the trellis, if the user wants to see it
 *
 * @typedef {Object} Store
 * @property {() => State} get
 * @property {(patch: Partial<State>) => void} set   subscribers hear of keys whose value differs (Object.is)
 * @property {(fn: (state: State, changed: Set<string>) => void) => () => void} subscribe   returns a function that ends it
 */

/** @type {State} */
export const INITIAL = {
  model: null, sentences: [], text: "", data: null, index: -1, rules: "", check: null, explain: null,
  explainError: null, evaluation: null, evaluationError: null, tests: null, testsError: null, filter: "all", search: "", sort: "order", browse: null, baseline: null, curves: null, file: null, goto: null,
  picture: { wanted: false, svg: null, error: null },
};

/**
 * A store. Subscribers are called at once, in order. If one calls `set`, the others hear of that afterwards,
 * so no older state is shown after a newer one.
 *
 * @param {Partial<State>} [initial]
 * @returns {Store}
 */
export function createStore(initial = {}) {
  /** @type {any} */
  let state = { ...INITIAL, ...initial };
  const listeners = new Set();
  /** @type {Set<string>[]} */
  const waiting = [];
  let telling = false;
  return {
    get: () => state,
    set(patch) {
      const changed = new Set(Object.keys(patch).filter((key) => !Object.is(state[key], /** @type {any} */ (patch)[key])));
      if (!changed.size) return;
      state = { ...state, ...patch };
      waiting.push(changed);
      if (telling) return;
      telling = true;
      try {
        for (let next = waiting.shift(); next; next = waiting.shift()) for (const fn of [...listeners]) fn(state, next);
      } finally {
        telling = false;
        waiting.length = 0;
      }
    },
    subscribe(fn) {
      listeners.add(fn);
      return () => listeners.delete(fn);
    },
  };
}

/**
 * What is shown: the tokens and gold labels of a sequence, or the text of the user.
 *
 * @param {State} state
 * @returns {{sequence: Sequence|null, text: string}} text: what stands in the text field
 */
export function shown(state) {
  const sequence = state.index >= 0 ? state.data?.sequences[state.index] ?? null : null;
  return { sequence, text: sequence ? sequence.text ?? sequence.tokens.join(" ") : state.text };
}

/**
 * The state as a URL fragment: text, or sample data and the number of a sequence, and the rules if they were changed.
 *
 * @param {State} state
 * @param {boolean} [withText] false: leave the user's text out
 * @returns {Promise<string>} "#v1." and base64url of deflated JSON
 */
export async function toFragment(state, withText = true) {
  const sample = state.data?.sample;
  /** @type {any} */
  const kept = {};
  if (sample) kept.sample = state.index;
  if (withText && (!sample || state.index < 0)) kept.text = shown(state).text;
  if (state.filter !== "all" && sample) kept.filter = state.filter;
  if (state.rules !== state.model?.rules) kept.rules = state.rules;
  const json = new TextEncoder().encode(JSON.stringify(kept));
  const bytes = await through(json, new CompressionStream("deflate-raw"));
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return `#v1.${btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

/** @param {string} fragment @returns {boolean} does it begin as a link to a state, of this or of a later version? */
export function isLink(fragment) {
  return /^#v\d+\./.test(fragment);
}

/**
 * The state that a URL fragment holds.
 *
 * @param {string} fragment
 * @returns {Promise<{text?: string, sample?: number, filter?: any, rules?: string}|null>} null if it holds none or is damaged
 */
export async function fromFragment(fragment) {
  if (!fragment.startsWith("#v1.")) return null;
  try {
    const binary = atob(fragment.slice(4).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(binary, (c) => c.charCodeAt(0));
    const stored = JSON.parse(new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw"))));
    const kinds = { text: "string", rules: "string", filter: "string", sample: "number" };
    return Object.fromEntries(Object.entries(kinds).filter(([key, kind]) => typeof stored?.[key] === kind)
      .map(([key]) => [key, stored[key]]));
  } catch {
    return null;
  }
}

const MOST = 4_000_000; // bytes that a fragment may become: a link from a stranger must not fill the memory

/** @param {Uint8Array} bytes @param {any} stream @returns {Promise<Uint8Array>} */
async function through(bytes, stream) {
  const reader = new Blob([/** @type {any} */ (bytes)]).stream().pipeThrough(stream).getReader();
  const parts = [];
  let size = 0;
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    parts.push(next.value);
    size += next.value.length;
    if (size > MOST) throw new RangeError("The state in the link is too large.");
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}
