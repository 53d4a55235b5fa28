/**
 * Which sequences of the data are listed: a filter, a search and an order. A filter is a text, so that links can hold it:
 * one of NAMES, "rule LINE gold|plain|best|changed", or "mistake " and JSON of the two labels and the cause.
 *
 * @typedef {import("./state.js").State} State
 */
import { h } from "./dom.js";

/** @type {Object<string, string>} */
export const NAMES = {
  all: "all", wrong: "still wrong", worse: "made worse", repaired: "repaired", improved: "made better",
  gained: "better than the baseline", lost: "worse than the baseline",
  changed: "changed by the rules", broken: "break a rule without rules", relaxed: "no labels obey all hard rules",
};
const GOLD = new Set(["wrong", "worse", "repaired", "improved", "gained", "lost"]); // filters that need gold labels
const COMPARED = new Set(["gained", "lost"]); // filters that need a baseline
const CAUSES = { model: "the model", rules: "the rules", both: "model and rules" };
/** @type {Object<string, string>} */
const WHOSE = { gold: "gold labels break", plain: "labels without rules break", best: "labels with rules break", changed: "changed by" };

/** @param {string} key @returns {boolean} can it be a filter? */
export function isFilter(key) {
  return key in NAMES || /^rule \d+ (gold|plain|best|changed)$/.test(key) || key.startsWith("mistake ");
}

/** @param {any} mistake @returns {string} the filter that shows it */
export function mistakeKey({ gold, guess, cause }) {
  return `mistake ${JSON.stringify([gold, guess, cause])}`;
}

/**
 * The sequences that a filter lets through.
 *
 * @param {State} state
 * @param {string} key
 * @returns {number[]|null} null: all of them, or not known yet
 */
export function numbersOf(state, key) {
  const evaluation = state.evaluation;
  if (!evaluation || key === "all") return null;
  const { errors, errors_without: before } = evaluation;
  const where = (/** @type {(k: number) => boolean} */ test) => (errors ?? []).flatMap((/** @type {number} */ _, /** @type {number} */ k) => (test(k) ? [k] : []));
  if (key === "wrong") return where((k) => errors[k] > 0);
  if (key === "gained" || key === "lost") {
    const then = state.baseline?.evaluation?.errors;
    return where((k) => Boolean(then) && (key === "gained" ? errors[k] < then[k] : errors[k] > then[k]));
  }
  if (key === "repaired") return where((k) => before[k] > 0 && errors[k] === 0);
  if (key.startsWith("rule ")) {
    const [, line, whose] = key.split(" ");
    return evaluation.rules.find((/** @type {any} */ row) => row.line === Number(line))?.at[whose] ?? [];
  }
  if (key.startsWith("mistake ")) return evaluation.mistakes.find((/** @type {any} */ m) => mistakeKey(m) === key)?.sequences ?? [];
  return evaluation[key] ?? [];
}

/** @param {State} state @param {string} key @returns {string} */
export function nameOf(state, key) {
  if (key.startsWith("rule ")) {
    const [, line, whose] = key.split(" ");
    return `${WHOSE[whose]} line ${line}`;
  }
  if (key.startsWith("mistake ")) {
    const [gold, guess, cause] = JSON.parse(key.slice("mistake ".length));
    return `${gold} found as ${guess}: ${CAUSES[/** @type {"model"} */ (cause)]}`;
  }
  return NAMES[key];
}

/** @param {State} state @returns {string[]} the filters that the data allows, the one that is chosen among them */
export function filtersFor(state) {
  const keys = Object.keys(NAMES).filter((key) => (state.data?.has_gold || !GOLD.has(key)) && (state.baseline || !COMPARED.has(key)));
  return keys.includes(state.filter) ? keys : [...keys, state.filter];
}

/**
 * The numbers of the sequences in the list, in its order.
 *
 * @param {State} state
 * @returns {number[]}
 */
export function listed(state) {
  const sequences = state.data?.sequences ?? [];
  const words = state.search.toLowerCase();
  let numbers = numbersOf(state, state.filter) ?? sequences.map((_, k) => k);
  if (words) numbers = numbers.filter((k) => `${sequences[k]?.id ?? ""} ${sequences[k]?.tokens.join(" ")}`.toLowerCase().includes(words));
  const { errors, errors_without: before } = state.evaluation ?? {};
  if (!errors || state.sort === "order") return numbers;
  const value = state.sort === "loss" ? (/** @type {number} */ k) => errors[k] : (/** @type {number} */ k) => before[k] - errors[k];
  return [...numbers].sort((a, b) => value(b) - value(a) || a - b);
}

/**
 * A figure that leads to its sequences.
 *
 * @param {import("./state.js").Store} store
 * @param {string} key of the filter
 * @param {import("./dom.js").Child} text
 * @param {string} [label] what is said of it; by default the text and the name of the filter
 * @returns {any}
 */
export function figureLink(store, key, text, label) {
  return h("button", {
    type: "button", class: "link figure", title: `Show these sequences: ${nameOf(store.get(), key)}`, "aria-label": label ?? null,
    onclick: () => show(store, key),
  }, text);
}

/** Show the sequences of a filter, the first of them at once. @param {import("./state.js").Store} store @param {string} key */
export function show(store, key) {
  store.set({ filter: key, search: "" });
  const numbers = listed(store.get());
  if (numbers.length && !numbers.includes(store.get().index)) store.set({ index: numbers[0] });
  store.set({ browse: {} });
}
