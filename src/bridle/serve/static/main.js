/** Starts the page: asks the server when text, data or rules change, and puts the answers into the store. */

import { api, ApiError } from "./api.js";
import { byId, debounce, fill } from "./dom.js";
import { createGoldPane } from "./gold_pane.js";
import { keepAddress, restore, setUpHeader } from "./header.js";
import { createResultPane, summary } from "./result_pane.js";
import { createRulesPane } from "./rules_pane.js";
import { createStore, shown } from "./state.js";
import { createTextPane } from "./text_pane.js";
import { problem } from "./words.js";

const WAIT = 120; // milliseconds without a key before the server is asked
const PATIENCE = 300; // milliseconds before the page shows that it is waiting
const RETRY = 2000; // milliseconds until the page asks a server again that did not answer
const ALTERNATIVES = 5;

const store = createStore();
/** @type {(() => Promise<any>)|null} loads the data again: the server keeps only what was used lately */
let reload = null;
let running = 0;

/** @param {string} text */
function say(text) {
  if (byId("status").textContent !== text) fill(byId("status"), text);
}

/**
 * Wait for an answer, and show that after a while.
 *
 * @template T
 * @param {Promise<T>} promise
 * @returns {Promise<T>}
 */
async function busy(promise) {
  running += 1;
  const timer = setTimeout(() => document.body.classList.add("busy"), PATIENCE);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    running -= 1;
    if (!running) document.body.classList.remove("busy");
  }
}

/** @param {unknown} error @returns {any} an ApiError that is worth showing; null if a newer call replaced this one */
function worth(error) {
  if (!(error instanceof ApiError)) throw error;
  if (error.unreachable) retry(error);
  return error.aborted ? null : error;
}

let retrying = false;
/** @param {ApiError} error */
function retry(error) {
  say(error.what);
  fill(byId("trouble"), problem(error, store));
  if (retrying) return;
  retrying = true;
  const again = () => api.model().then((model) => {
    retrying = false;
    fill(byId("trouble"));
    if (store.get().model) ask(new Set(["rules", "data"]));
    else begin(model);
  }, () => setTimeout(again, RETRY));
  setTimeout(again, RETRY);
}

/** @returns {any} what /explain is asked; null if there is no text */
function question() {
  const state = store.get(), { sequence, text } = shown(state);
  if (sequence) return { tokens: sequence.tokens, gold: sequence.labels ?? undefined, rules: state.rules, k: ALTERNATIVES };
  if (!text.trim()) return null;
  const asked = state.model.takes_text ? { text } : { tokens: text.trim().split(/\s+/u) };
  return { ...asked, rules: state.rules, k: ALTERNATIVES };
}

async function explain() {
  const asked = question();
  if (!asked) {
    store.set({ explain: null, explainError: null });
    return say("There is no text yet.");
  }
  try {
    const told = await busy(api.explain(asked));
    if (!question()) return undefined;
    store.set({ explain: told, explainError: null });
    say(summary(told));
  } catch (error) {
    const shownError = worth(error);
    if (!shownError) return undefined;
    store.set({ explainError: shownError });
    say(shownError.what);
  }
  return undefined;
}

async function picture() {
  const asked = question();
  if (!asked || !store.get().picture.wanted) return;
  const set = (/** @type {any} */ patch) => store.set({ picture: { ...store.get().picture, ...patch } });
  try {
    set({ svg: (await busy(api.explain({ ...asked, picture: true }))).svg ?? null, error: null });
  } catch (error) {
    const shownError = worth(error);
    if (shownError) set({ svg: null, error: shownError });
  }
}

async function check() {
  const { rules } = store.get();
  try {
    const found = await busy(api.check(rules));
    store.set({ check: found });
    if (!found.examples.length) return store.set({ tests: null });
    store.set({ tests: await busy(api.test(rules)) });
  } catch (error) {
    if (worth(error)) store.set({ tests: null });
  }
  return undefined;
}

async function evaluate(again = true) {
  const { data, rules } = store.get();
  if (!data) return;
  try {
    const found = await busy(api.evaluate(data.id, rules));
    if (store.get().data?.id === data.id) store.set({ evaluation: found, evaluationError: null });
  } catch (error) {
    const shownError = worth(error);
    if (shownError?.code === "unknown-data" && again && reload) {
      await reload().then(() => evaluate(false), () => store.set({ evaluationError: shownError }));
    } else if (shownError) {
      store.set({ evaluationError: shownError });
    }
  }
}

/** @param {Set<string>} changed */
function ask(changed) {
  if (!store.get().model) return;
  const any = (/** @type {string[]} */ ...keys) => keys.some((key) => changed.has(key));
  if (any("rules")) check();
  if (any("rules", "text", "index", "data")) explain().then(picture);
  if (any("rules", "data")) evaluate();
}

/** @param {() => Promise<any>} load @param {any} about name and sample */
async function loadData(load, about) {
  say("Loading the data …");
  try {
    const found = await busy(load());
    reload = load;
    store.set({ data: { ...found, ...about }, index: found.sequences.length ? 0 : -1, evaluation: null, evaluationError: null, filter: "all" });
    fill(byId("trouble"));
  } catch (error) {
    const shownError = worth(error);
    if (!shownError || shownError.unreachable) return;
    fill(byId("trouble"), problem(shownError, store));
    say(shownError.what);
  }
}

const loadSample = () => loadData(api.sample, { name: "Sample references", sample: true });
const actions = {
  loadSample,
  loadFile: async (/** @type {File} */ file) => {
    const text = await file.text();
    loadData(() => api.data(file.name, text), { name: file.name, sample: false });
  },
  showTrellis: (/** @type {boolean} */ wanted) => {
    store.set({ picture: { wanted, svg: null, error: null } });
    picture();
  },
};

/** @param {any} model */
async function begin(model) {
  store.set({ model, rules: model.rules, text: model.sample_texts[0] ?? "" });
  api.sentences().then((found) => store.set({ sentences: found.sentences }), worth);
  await restore(store, loadSample);
}

createTextPane(store, actions);
createRulesPane(byId("rules-pane"), store);
createResultPane(store, actions);
createGoldPane(store);
setUpHeader(store, say);
/** @type {Set<string>} */
let pending = new Set();
const soon = debounce(() => {
  const changed = pending;
  pending = new Set();
  ask(changed);
}, WAIT);
const asked = new Set(["rules", "text", "index", "data"]);
store.subscribe((state, changed) => {
  const some = [...changed].filter((key) => asked.has(key));
  if (!state.model || !some.length) return;
  for (const key of some) pending.add(key);
  soon();
});
keepAddress(store);
window.addEventListener("hashchange", () => restore(store, loadSample));
api.model().then(begin, worth);
