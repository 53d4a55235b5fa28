/**
 * The text: typed, pasted, chosen from samples, or a sequence of labelled data, and the steps from one to the next.
 *
 * @typedef {{loadSample: () => void, loadLines: (text: string) => void}} Actions
 */

import { byId, fill, h, isTyping } from "./dom.js";
import { listed } from "./filters.js";
import { shown } from "./state.js";
import { capital, counted } from "./words.js";

/**
 * The next sequence in a direction.
 *
 * @param {import("./state.js").State} state
 * @param {1 | -1} step
 * @param {number} from
 * @returns {number} -1: there is none
 */
export function neighbour(state, step, from) {
  const numbers = listed(state), place = numbers.indexOf(from);
  if (place >= 0) return numbers[place + step] ?? -1;
  const next = step > 0 ? numbers.find((k) => k > from) : numbers.findLast((k) => k < from);
  return next ?? -1;
}

/** @param {import("./state.js").State} state @returns {boolean} did the user write or paste a text? Samples are none. */
function hasOwnText(state) {
  return Boolean(state.text.trim()) && !(state.model?.sample_texts ?? []).includes(state.text);
}

/**
 * @param {import("./state.js").Store} store
 * @param {Actions} actions
 */
export function createTextPane(store, actions) {
  const [field, samples] = ["text", "samples"].map(byId);
  let last = -1; // the sequence that was shown before the user wrote a text

  const from = () => (store.get().index >= 0 ? store.get().index : last);
  const step = (/** @type {1 | -1} */ direction) => {
    const state = store.get();
    const next = neighbour(state, direction, state.index >= 0 || direction > 0 ? from() : from() + 1);
    if (state.data && next >= 0) store.set({ index: next });
  };

  field.addEventListener("input", () => store.set({ text: field.value, index: -1 }));
  samples.addEventListener("change", () => {
    const text = store.get().model?.sample_texts[Number(samples.value)];
    if (text !== undefined) store.set({ text, index: -1 });
    samples.selectedIndex = 0;
  });
  byId("load-sample").addEventListener("click", actions.loadSample);
  byId("split-lines").addEventListener("click", () => actions.loadLines(store.get().text));
  byId("own-text").addEventListener("click", () => store.set({ index: -1 }));
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(1));
  byId("close-data").addEventListener("click", () => {
    const state = store.get();
    store.set({ text: hasOwnText(state) ? state.text : shown(state).text, data: null, index: -1, evaluation: null, evaluationError: null, filter: "all", search: "" });
    field.focus();
  });
  document.addEventListener("keydown", (event) => {
    if (!store.get().data || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const at = /** @type {Element} */ (event.target), inPane = at === document.body || at.closest("#text-pane, #result");
    if (at.matches("input[type=range]")) return;
    const typing = isTyping(at), mac = /Mac|iPhone|iPad/.test(navigator.platform);
    const arrows = { ArrowLeft: -1, ArrowRight: 1 }, letters = { k: -1, j: 1 };
    const direction = event.altKey ? (typing && mac ? undefined : arrows[/** @type {"ArrowLeft"} */ (event.key)])
      : typing || !inPane ? undefined : letters[/** @type {"j"} */ (event.key)];
    if (!direction) return;
    event.preventDefault();
    step(/** @type {1 | -1} */ (direction));
  });

  store.subscribe((state, changed) => {
    if (changed.has("data")) last = -1;
    if (state.index >= 0) last = state.index;
    if (changed.has("model")) drawSamples(samples, state);
    if (["text", "index", "data"].some((key) => changed.has(key))) {
      const { text } = shown(state);
      if (field.value !== text) field.value = text;
    }
    if (["text", "index", "model"].some((key) => changed.has(key))) {
      byId("lines").hidden = state.index >= 0 || !state.model?.takes_text || state.text.split("\n").filter((line) => line.trim()).length < 2;
    }
    if (changed.has("data")) drawWarnings(state);
    if (["data", "index", "filter", "evaluation", "search", "sort"].some((key) => changed.has(key))) drawData(state, from());
    byId("load-sample").hidden = !state.model?.sample || Boolean(state.data?.sample);
  });
}

/** @param {any} model @returns {string} what its sample data is called: references, unless the server was given its own */
export function sampleName(model) {
  return model?.sample_name || "Sample data";
}

/** @param {any} samples the select @param {import("./state.js").State} state */
function drawSamples(samples, state) {
  const texts = state.model?.sample_texts ?? [];
  fill(samples, h("option", { value: "" }, "Sample texts …"),
    texts.map((/** @type {string} */ text, /** @type {number} */ k) => h("option", { value: k }, text.length > 70 ? `${text.slice(0, 70)} …` : text)));
  samples.hidden = !texts.length;
  fill(byId("load-sample"), `Load ${sampleName(state.model)}`);
}

/** @param {import("./state.js").State} state */
function drawWarnings(state) {
  const warnings = state.data?.warnings ?? [];
  fill(byId("data-warnings"), warnings.length ? h("ul", { class: "problem warning" }, warnings.map((text) => h("li", {}, capital(text)))) : null);
}

/** @param {import("./state.js").State} state @param {number} from */
function drawData(state, from) {
  byId("loaded").hidden = !state.data;
  if (!state.data) return;
  const { sequences, name, has_gold: gold } = state.data;
  fill(byId("data-name"), name, h("span", { class: "dim" }, ` ${counted(sequences.length, "sequence")}${gold ? "" : ", no gold labels"}`));
  const matching = listed(state);
  const total = matching.length;
  const place = state.index < 0 ? -1 : matching.indexOf(state.index);
  const some = total < sequences.length || state.sort !== "order";
  const id = sequences[state.index]?.id;
  const seen = JSON.stringify([state.index, place, total, some, id]);
  if (byId("position").dataset.seen !== seen) fill(byId("position"), // not each time: it is read out
    state.index < 0 ? `your own text; ${total} in the data` : place < 0 ? `not among these ${total}` : `${place + 1} of ${total}`,
    some && state.index >= 0 ? h("span", { class: "dim" }, ` (number ${state.index + 1})`) : null,
    id ? h("span", { class: "dim id" }, ` ${id}`) : null);
  byId("position").dataset.seen = seen;
  byId("own-text").setAttribute("aria-disabled", String(state.index < 0));
  for (const [key, direction] of /** @type {[string, 1 | -1][]} */ ([["previous", -1], ["next", 1]])) {
    const start = state.index >= 0 || direction > 0 ? from : from + 1;
    byId(key).setAttribute("aria-disabled", String(neighbour(state, direction, start) < 0));
  }
}
