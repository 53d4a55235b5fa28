/** Starts the page: makes the panes, and asks the server when text, data or rules have changed. */

import { api, ApiError } from "./api.js";
import { createAsking } from "./asking.js";
import { createBaseline } from "./baseline.js";
import { createCorrections } from "./correct.js";
import { byId, debounce, fill } from "./dom.js";
import { createFiles } from "./files.js";
import { createGoldPane } from "./gold_pane.js";
import { keepAddress, restore, setUpHeader } from "./header.js";
import { createResultPane } from "./result_pane.js";
import { createRulesPane } from "./rules_pane.js";
import { createSequenceList } from "./sequence_list.js";
import { createStore } from "./state.js";
import { keepState } from "./storage.js";
import { createTextPane } from "./text_pane.js";
import { createTuning } from "./tuning.js";
import { problem } from "./words.js";

const WAIT = 25; // milliseconds without a key before the server is asked,
const AT_MOST = 100; // but no longer than this while keys, or a slider that is dragged, go on
const PATIENCE = 300; // milliseconds before the page shows that it is waiting
const RETRY = 2000; // milliseconds until the page asks a server again that did not answer
const ASKED = ["model", "rules", "text", "index", "data"]; // keys of the state that the answers depend on

const store = createStore();
const asking = createAsking({ store, say, busy, worth, showError });

/** @param {string} text */
function say(text) {
  if (byId("status").textContent !== text) fill(byId("status"), text);
}

/** @param {any} error */
function showError(error) {
  fill(byId("page-error"), error ? problem(error, store) : null);
}

let running = 0;
/**
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

/** @param {unknown} error @returns {any} an ApiError that is worth showing where it belongs, else null */
function worth(error) {
  if (!(error instanceof ApiError)) throw error;
  if (error.unreachable) retry(error);
  return error.aborted || error.unreachable ? null : error;
}

let retrying = false;
/** @param {ApiError} error */
function retry(error) {
  say(error.what);
  showError(error);
  if (retrying) return;
  retrying = true;
  const again = () => api.model().then((model) => {
    retrying = false;
    showError(null);
    if (store.get().model) asking.ask(new Set(ASKED));
    else begin(model);
  }, () => setTimeout(again, RETRY));
  setTimeout(again, RETRY);
}

/** The address holds a state that cannot be read. */
function damaged() {
  const error = new ApiError({ code: "damaged", what: "The link is damaged or incomplete.", cause: "The page shows what it shows without a link." });
  showError(error);
  asking.tell(error.what);
}

/** @param {any} model */
async function begin(model) {
  store.set({ model, rules: model.rules, text: model.sample_texts[0] ?? "" });
  api.sentences().then((answer) => store.set({ sentences: answer.sentences }), worth);
  await files.begin();
  if (model.sample) await asking.loadSample();
  const unsaved = await restore(store, asking.loadSample, damaged);
  if (unsaved !== undefined) files.offer(unsaved);
  keepAddress(store);
  keepState(store);
  if (!store.get().check) askFor(ASKED); // with neither text nor rules, nothing has changed
}

createTextPane(store, asking);
createSequenceList(store);
const rulesPane = createRulesPane(byId("rules-pane"), store, say, (line) => tuning.tuneLine(line));
const desk = { store, say, busy, worth, showError };
createBaseline(rulesPane.tools, store, rulesPane.edit);
const tuning = createTuning(rulesPane.tools, desk, asking.rules, rulesPane.edit);
const files = createFiles(desk, asking, rulesPane.edit);
createCorrections(desk, asking, rulesPane.edit, rulesPane.language);
byId("undo").addEventListener("click", rulesPane.undo);
byId("redo").addEventListener("click", rulesPane.redo);
createResultPane(store, asking);
createGoldPane(store);
setUpHeader(store, say);

/** @type {Set<string>} */
let waiting = new Set();
const soon = debounce(() => {
  const changed = waiting;
  waiting = new Set();
  asking.ask(changed);
}, WAIT, AT_MOST);
/** @param {string[]} keys of the state that have changed */
function askFor(keys) {
  for (const key of keys) waiting.add(key);
  soon();
}
store.subscribe((state, changed) => {
  const some = ASKED.filter((key) => changed.has(key));
  if (!state.model || !some.length) return;
  if (!retrying && (changed.has("text") || changed.has("data"))) showError(null);
  askFor(some);
});
window.addEventListener("hashchange", () => restore(store, asking.loadSample, damaged));
api.model().then(begin, worth);
