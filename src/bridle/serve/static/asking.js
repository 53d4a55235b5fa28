/**
 * What the page asks the server, and where the answers go: into the store.
 *
 * @typedef {Object} Desk what main.js provides
 * @property {import("./state.js").Store} store
 * @property {(text: string) => void} say                         writes the status line
 * @property {<T>(promise: Promise<T>) => Promise<T>} busy        shows that the page waits, if it takes long
 * @property {(error: unknown) => any} worth                      the error if it is worth showing, else null
 * @property {(error: any) => void} trouble                       shows an error above the panes; null: none any more
 */

import { api, ApiError } from "./api.js";
import { debounce } from "./dom.js";
import { createLoading } from "./loading.js";
import { explainOrLabel, isTooLong } from "./long_text.js";
import { summary } from "./result_pane.js";
import { shown } from "./state.js";

const ALTERNATIVES = 5;
const AT_ONCE = 0.1; // seconds for figures of single rules; those that take longer follow
const STILL = 1000; // milliseconds without a change of the rules before it is said that they cannot be read
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

  /** Not at every key: what is being typed cannot be read most of the time. */
  const sayUnreadable = debounce(() => {
    if (unreadable) say(`Line ${unreadable.line} of the rules cannot be used: ${unreadable.what}`);
  }, STILL);

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
    const asked = question(), gold = shown(store.get()).sequence?.labels ?? null;
    if (!asked) {
      store.set({ explain: null, explainError: null });
      return say("There is no text yet.");
    }
    if (unreadable) return store.set({ explainError: unreadable });
    try {
      const told = await busy(explainOrLabel(asked, store.get().model.limits));
      if (!question()) return undefined;
      store.set({ explain: { ...told, gold }, explainError: null });
      say(notice + summary(told));
      notice = "";
    } catch (error) {
      const found = worth(error);
      if (!found) return undefined;
      store.set({ explainError: found });
      say(found.what);
    }
    return undefined;
  }

  async function picture() {
    const asked = question();
    if (!asked || unreadable || !store.get().picture.wanted || isTooLong(asked, store.get().model.limits)) return;
    const set = (/** @type {any} */ patch) => store.set({ picture: { ...store.get().picture, ...patch } });
    try {
      set({ svg: (await busy(api.explain({ ...asked, picture: true }))).svg ?? null, error: null });
    } catch (error) {
      const found = worth(error);
      if (found) set({ svg: null, error: found });
    }
  }

  /** @returns {Promise<boolean>} false if newer rules are being checked, or if there was no answer */
  async function check() {
    try {
      const text = store.get().rules;
      const found = await busy(api.check(text));
      rules = text;
      const examples = new Set(found.examples.map((/** @type {any} */ example) => example.line));
      const bad = found.findings.find((/** @type {any} */ f) => f.level === "error" && UNREADABLE.has(f.code) && !examples.has(f.line));
      unreadable = bad ? new ApiError({ code: "unreadable", what: bad.message, line: bad.line }) : null;
      store.set({ check: found });
      sayUnreadable();
      return true;
    } catch (error) {
      const found = worth(error);
      if (found) store.set({ explainError: found });
      return false;
    }
  }

  async function test() {
    const { check: known } = store.get();
    if (unreadable || !known?.examples.length) return store.set({ tests: null, testsError: null });
    try {
      store.set({ tests: await busy(api.test(rules)), testsError: null });
    } catch (error) {
      const found = worth(error);
      if (found) store.set({ tests: null, testsError: found });
    }
    return undefined;
  }

  async function evaluate(again = true) {
    const { data } = store.get();
    if (!data) return;
    if (unreadable) return void store.set({ evaluationError: unreadable });
    try {
      const asked = rules;
      const show = (/** @type {any} */ found) => {
        if (store.get().data?.id === data.id) store.set({ evaluation: found, evaluationError: null });
        return found.complete;
      };
      if (!show(await busy(api.evaluate(data.id, asked, AT_ONCE)))) show(await busy(api.evaluate(data.id, asked)));
    } catch (error) {
      const found = worth(error);
      const sent = found?.code === "unknown-data" && again ? loading.again() : null;
      if (sent) {
        await sent.then(() => evaluate(false), () => store.set({ evaluationError: found }));
      } else if (found) {
        store.set({ evaluationError: found });
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
    if (any("rules") || !await checked) checked = check();
    if (!await checked) return;
    if (any("rules", "text", "index", "data")) explain().then(picture);
    if (any("rules", "data")) evaluate();
    if (any("rules")) test();
  }

  return {
    ask,
    tell,
    loadSample: loading.loadSample,
    loadFile: loading.loadFile,
    loadLines: loading.loadLines,
    /** @param {boolean} wanted */
    showTrellis: (wanted) => {
      store.set({ picture: { wanted, svg: null, error: null } });
      picture();
    },
  };
}
