/**
 * What the page asks the server, and where the answers go: into the store.
 *
 * @typedef {Object} Desk what main.js provides
 * @property {import("./state.js").Store} store
 * @property {(text: string) => void} say                         writes the status line
 * @property {<T>(promise: Promise<T>) => Promise<T>} busy        shows that the page waits, if it takes long
 * @property {(error: unknown) => any} worth                      the error if it is worth showing, else null
 * @property {(error: any) => void} showError                     shows an error above the panes; null: none any more
 */

import { api, ApiError } from "./api.js";
import { debounce } from "./dom.js";
import { createLoading } from "./loading.js";
import { explainOrLabel, isTooLong } from "./long_text.js";
import { summary } from "./result_pane.js";
import { shown } from "./state.js";

const ALTERNATIVES = 5;
const AT_ONCE = 0.1; // seconds for figures of single rules; those that take longer follow
const STILL = 700; // milliseconds without a change until curves are asked for
const UNREADABLE = new Set(["syntax", "unknown-label", "backtracking"]); // codes of findings for which requests are refused

/** @param {Desk} desk */
export function createAsking(desk) {
  const { store, say, busy, worth } = desk;
  const loading = createLoading(desk, tell);
  /** @type {ApiError|null} why the rules cannot be read; requests that need rules wait until they can */
  let unreadable = null;
  /** the rules that were checked last: the ones that requests send. Newer ones may be unreadable. */
  let rules = "";
  /** @type {Promise<boolean>} were the rules checked? */
  let checked = Promise.resolve(true);
  /** what is said before the next summary, which would else take its place at once */
  let notice = "";

  /** @param {string} text */
  function tell(text) {
    notice = text ? `${text.replace(/[^.?!]$/u, "$&.")} ` : "";
    if (text) say(notice.trim());
  }

  /** @returns {any} what /explain is asked; null if there is no text */
  function question() {
    const state = store.get(), { sequence, text } = shown(state);
    if (sequence) {
      const known = sequence.labels?.every((label) => label !== null) ?? false;
      const input = sequence.columns ? { columns: sequence.columns } : { tokens: sequence.tokens };
      return { ...input, gold: known ? sequence.labels : undefined, rules, k: ALTERNATIVES };
    }
    if (!text.trim()) return null;
    return { ...(state.model.takes_text ? { text } : { tokens: text.trim().split(/\s+/u) }), rules, k: ALTERNATIVES };
  }

  async function explain() {
    const request = question(), gold = shown(store.get()).sequence?.labels ?? null;
    if (!request) {
      store.set({ explain: null, explainError: null });
      return say("There is no text yet.");
    }
    if (unreadable) return store.set({ explainError: unreadable });
    try {
      const explanation = await busy(explainOrLabel(request, store.get().model.limits));
      if (!question()) return undefined;
      const { sequence } = shown(store.get());
      const offsets = explanation.offsets ?? sequence?.starts?.map((/** @type {number} */ start, /** @type {number} */ t) => [start, start + [...sequence.tokens[t]].length]) ?? null;
      store.set({ explain: { ...explanation, offsets, gold }, explainError: null });
      say(notice + summary(explanation));
      notice = "";
    } catch (error) {
      const failure = worth(error);
      if (!failure) return undefined;
      store.set({ explainError: failure });
      say(failure.what);
    }
    return undefined;
  }

  async function picture() {
    const request = question();
    if (!request || unreadable || !store.get().picture.wanted || isTooLong(request, store.get().model.limits)) return;
    const set = (/** @type {any} */ patch) => store.set({ picture: { ...store.get().picture, ...patch } });
    try {
      set({ svg: (await busy(api.explain({ ...request, picture: true }))).svg ?? null, error: null });
    } catch (error) {
      const failure = worth(error);
      if (failure) set({ svg: null, error: failure });
    }
  }

  /** @returns {Promise<boolean>} false if newer rules are being checked, or if there was no answer */
  async function check() {
    try {
      const text = store.get().rules;
      const answer = await busy(api.check(text));
      rules = text;
      const examples = new Set(answer.examples.map((/** @type {any} */ example) => example.line));
      const bad = answer.findings.find((/** @type {any} */ f) => f.level === "error" && UNREADABLE.has(f.code) && !examples.has(f.line));
      unreadable = bad ? new ApiError({ code: "unreadable", what: bad.message, line: bad.line }) : null;
      store.set({ check: { ...answer, text } });
      return true;
    } catch (error) {
      const failure = worth(error);
      if (failure) store.set({ explainError: failure });
      return false;
    }
  }

  async function test() {
    const { check: known } = store.get();
    if (unreadable || !known?.examples.length) return store.set({ tests: null, testsError: null });
    try {
      store.set({ tests: await busy(api.test(rules)), testsError: null });
    } catch (error) {
      const failure = worth(error);
      if (failure) store.set({ tests: null, testsError: failure });
    }
    return undefined;
  }

  /** Curves take longer than figures, and are not needed while a slider moves. */
  const drawCurves = debounce(async () => {
    const { data, check: known } = store.get();
    if (!data?.has_gold || unreadable || !known?.rules.some((/** @type {any} */ rule) => rule.penalty !== null)) return store.set({ curves: null });
    const sent = rules;
    const curves = await api.curves(data.id, sent).catch((error) => { worth(error); return null; });
    if (rules === sent) store.set({ curves });
    return undefined;
  }, STILL);

  async function evaluate(again = true) {
    const { data } = store.get();
    if (!data) return;
    if (unreadable) return void store.set({ evaluationError: unreadable });
    try {
      const sentRules = rules;
      let tried = -1, budget = /** @type {number|undefined} */ (AT_ONCE);
      for (;;) { // each answer goes on where the one before it stopped
        const evaluation = await busy(api.evaluate(data.id, sentRules, budget));
        if (store.get().data?.id === data.id) store.set({ evaluation, evaluationError: null });
        const now = evaluation.rules.filter((/** @type {any} */ row) => row.changed !== null).length;
        if (evaluation.complete || (now <= tried && budget === undefined)) return;
        [tried, budget] = [now, undefined];
      }
    } catch (error) {
      const failure = worth(error);
      const sent = failure?.code === "unknown-data" && again ? loading.again() : null;
      if (sent) {
        await sent.then(() => evaluate(false), () => store.set({ evaluationError: failure }));
      } else if (failure) {
        store.set({ evaluationError: failure });
      }
    }
  }

  /**
   * Ask what has to be asked again. Rules are checked first: what cannot be read is not sent, the last result stays.
   *
   * @param {Set<string>} changed keys of the state
   */
  async function ask(changed) {
    const any = (/** @type {string[]} */ ...keys) => keys.some((key) => changed.has(key));
    if (any("rules", "model") || !await checked) checked = check();
    if (!await checked) return;
    if (any("rules", "model", "text", "index", "data")) await explain().then(() => void picture()); // the figures take longer, and may wait
    if (any("rules", "data")) evaluate();
    if (any("rules", "data")) drawCurves();
    if (any("rules")) test();
  }

  return {
    ask,
    tell,
    loadSample: loading.loadSample,
    loadFile: loading.loadFile,
    /** @returns {string} the rules that requests send: the last ones that could be read */
    rules: () => rules,
    loadLines: loading.loadLines,
    loadAgain: loading.loadAgain,
    /** @param {boolean} wanted */
    showTrellis: (wanted) => {
      store.set({ picture: { wanted, svg: null, error: null } });
      picture();
    },
  };
}
