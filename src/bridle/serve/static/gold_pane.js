/** Figures over labelled data: what the rules do to it, together and one by one. Each figure leads to its sequences. */

import { byId, fill, h } from "./dom.js";
import { figureLink, mistakeKey } from "./filters.js";
import { counted, interval, lineLink, number, percent, problem, signed } from "./words.js";

const LITTLE = 0.0005; // a gain below this is none: it is printed as 0.0

/**
 * What a rule gains, in shares from 0 to 1.
 *
 * @param {any} row of evaluation.rules
 * @param {any} all of the evaluation
 * @returns {{alone: any, among: any}} f1 and accuracy each; null without gold or if not computed
 */
export function gains(row, all) {
  const less = (/** @type {any} */ a, /** @type {any} */ b) => (a && b ? { f1: a.f1 - b.f1, accuracy: a.accuracy - b.accuracy } : null);
  return { alone: less(row.alone, all.none), among: less(all.all, row.without) };
}

/**
 * Does a rule do good among the others?
 *
 * @param {any} row of evaluation.rules
 * @returns {""|"helps"|"hurts"|"may hurt"} "may": the interval of its gain goes beyond 0
 */
export function verdict(row) {
  const gain = row.gain;
  if (!gain || Math.abs(gain.gain) < LITTLE) return "";
  if (gain.gain > 0) return "helps";
  return gain.high < 0 ? "hurts" : "may hurt";
}

/** @param {any} row of evaluation.rules @returns {string} why the rule may not be needed; "" if it changes something, or if that is not known */
export function idle(row) {
  if (row.changed === null || row.changed > 0) return "";
  return row.plain ? "only repeats others" : "never fires";
}

/** @param {import("./state.js").Store} store */
export function createGoldPane(store) {
  store.subscribe((state, changed) => {
    if (["data", "evaluation", "evaluationError", "baseline"].some((key) => changed.has(key))) draw(state, store);
  });
  draw(store.get(), store);
}

/** @param {import("./state.js").State} state @param {import("./state.js").Store} store */
function draw(state, store) {
  const evaluation = state.evaluation, body = byId("figures-body");
  byId("figures").hidden = !state.data;
  byId("scores").hidden = !state.data?.has_gold;
  if (state.data?.has_gold) drawTiles(evaluation, state, store);
  if (!state.data) return void fill(body);
  const unreadable = state.evaluationError?.code === "unreadable";
  if (!evaluation) return void fill(body, state.evaluationError && !unreadable ? problem(state.evaluationError, store) : h("p", { class: "dim" }, "Computing …"));
  const error = state.evaluationError && !unreadable ? problem(state.evaluationError, store) : null;
  const box = body.querySelector(".wide"), left = box?.scrollLeft ?? 0, open = body.querySelector("#mistakes")?.open ?? false;
  fill(body, error, h("p", { class: "dim" }, sentence(evaluation, store)), table(evaluation, store),
    evaluation.none ? mistakes(evaluation, store) : h("p", { class: "dim" }, "The data has no gold labels, so there is nothing to measure accuracy and F1 against."));
  if (left) body.querySelector(".wide").scrollLeft = left;
  if (open) body.querySelector("#mistakes")?.setAttribute("open", "");
  return undefined;
}

// ---- the figures that matter ----

/** @param {any} evaluation or null @param {import("./state.js").State} state @param {import("./state.js").Store} store */
function drawTiles(evaluation, state, store) {
  const base = state.baseline?.evaluation;
  const names = [["f1", "F1 of segments"], ["accuracy", "tokens right"], ["all_right", "sequences all right"]];
  const tiles = names.map(([key, name]) => {
    const before = evaluation?.none?.[key] ?? 0, after = evaluation?.all?.[key] ?? 0;
    return h("div", { class: "tile" },
      h("span", { class: "dim" }, name),
      h("span", { class: "big" }, evaluation ? percent(before) : "…", h("span", { class: "unseen" }, " without rules,"), h("span", { class: "dim", "aria-hidden": "true" }, " → "),
        h("strong", {}, evaluation ? percent(after) : "…"), h("span", { class: "unseen" }, " with all rules")),
      h("span", { class: "gained" }, evaluation ? [signed(after - before), key === "f1" && evaluation.gain ? h("span", { class: "dim" }, ` (${interval(evaluation.gain)})`) : null] : "\u00a0"),
      base ? h("span", { class: "gained" }, evaluation?.all ? [signed(after - base.all[key]), h("span", { class: "dim" }, " against the baseline")] : "\u00a0") : null,
      h("span", { class: `meter ${after < before ? "less" : ""}`, "aria-hidden": "true" },
        h("span", { class: "before", style: { width: `${Math.min(before, after) * 100}%` } }),
        h("span", { class: "after", style: { width: `${Math.max(before, after) * 100}%` } })));
  });
  fill(byId("scores"), tiles, h("div", { class: "tile links" }, evaluation?.errors ? summaryLinks(evaluation, store) : "\u00a0"));
}

/** @param {any} evaluation @param {import("./state.js").Store} store @returns {any} */
function summaryLinks(evaluation, store) {
  const { errors, errors_without: before } = evaluation;
  const count = (/** @type {(k: number) => boolean} */ test) => errors.filter((/** @type {number} */ _, /** @type {number} */ k) => test(k)).length;
  const counts = [
    ["repaired", count((k) => before[k] > 0 && !errors[k]), "good"], ["worse", evaluation.worse.length, "bad"], ["wrong", count((k) => errors[k] > 0), ""],
  ];
  const words = /** @type {Object<string, string>} */ ({ repaired: "repaired", worse: "made worse", wrong: "still wrong" });
  return [
    h("ul", {}, counts.map(([key, n, kind]) => h("li", {}, figureLink(store, /** @type {string} */ (key), [h("strong", { class: n ? kind : "" }, n), ` ${words[/** @type {string} */ (key)]}`])))),
    h("button", { type: "button", class: "link", onclick: () => byId("figures").scrollIntoView({ block: "start" }) }, "Figures per rule"),
  ];
}

/** @param {any} evaluation @param {import("./state.js").Store} store @returns {any[]} */
function sentence(evaluation, store) {
  const link = (/** @type {string} */ key, /** @type {number} */ n, /** @type {string} */ words) => figureLink(store, key, `${n} ${words}`);
  const parts = [
    `${counted(evaluation.sequences, "sequence")}, ${counted(evaluation.tokens, "token")}. Without rules, `, link("broken", evaluation.broken.length, "break a rule"),
    "; the rules ", link("changed", evaluation.changed.length, "change"), " their labels",
  ];
  if (evaluation.none) parts.push(" (", link("improved", evaluation.improved.length, "better"), ", ", link("worse", evaluation.worse.length, "worse"), ")");
  parts.push(". ");
  if (evaluation.relaxed.length) parts.push("In ", link("relaxed", evaluation.relaxed.length, "of them"), " no labels obey all hard rules.");
  return parts;
}

// ---- one row per rule ----

/** @param {any} evaluation @param {import("./state.js").Store} store @returns {any} */
function table(evaluation, store) {
  const gold = Boolean(evaluation.none);
  const rows = evaluation.rules.map((/** @type {any} */ row) => ({ row, gain: gains(row, evaluation) }));
  const most = Math.max(LITTLE, ...rows.map((/** @type {any} */ r) => Math.abs(r.gain.among?.f1 ?? 0)));
  const group = (/** @type {string} */ name, /** @type {number} */ span) => h("th", { scope: "colgroup", colspan: span, class: "group" }, name);
  const head = (/** @type {string} */ name) => h("th", { scope: "col", class: "number" }, name);
  return h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Figures per rule, scrollable" }, h("table", { class: "figures" },
    h("thead", {},
      h("tr", {}, h("td", {}), group("sequences whose labels break it", gold ? 3 : 2), h("td", {}), gold ? [group("gain in F1, in points", 4), h("td", {})] : null),
      h("tr", {}, h("th", { scope: "col" }, "rule"), gold ? head("gold") : null, head("without rules"), head("with rules"), head("changed by it"),
        gold ? [head("only this rule"), head("with the others"), head("interval"), h("td", { "aria-hidden": "true" }), head("accuracy")] : null)),
    h("tbody", {}, rows.map((/** @type {any} */ r) => tableRow(r.row, r.gain, gold, most, store))),
    gold ? h("tfoot", {}, total("without rules", evaluation.none), total("with all rules", evaluation.all)) : null));
}

/** @param {string} name @param {any} f @returns {any} */
function total(name, f) {
  return h("tr", {}, h("th", { scope: "row", colspan: 5 }, name), h("td", { class: "number", colspan: 2 }, `F1 ${percent(f.f1)}`), h("td", { colspan: 2 }),
    h("td", { class: "number" }, percent(f.accuracy)));
}

/** @param {any} row @param {any} gain @param {boolean} gold @param {number} most @param {import("./state.js").Store} store @returns {any} */
function tableRow(row, gain, gold, most, store) {
  const count = (/** @type {string} */ whose, /** @type {number|null} */ n) => h("td", { class: n ? "number" : "number dim" },
    n && row.line ? figureLink(store, `rule ${row.line} ${whose}`, n) : n ?? "…");
  const gained = (/** @type {number|undefined} */ g) => h("td", { class: "number" }, g === undefined ? "…" : signed(g, { unit: false }));
  return h("tr", {},
    h("th", { scope: "row" }, lineLink(store, row.line, row.rule), marks(row)),
    gold ? count("gold", row.gold) : null, count("plain", row.plain), count("best", row.best), count("changed", row.changed),
    gold ? [
      gained(gain.alone?.f1), gained(gain.among?.f1), h("td", { class: "number dim" }, row.gain ? interval(row.gain, { unit: false }) : ""),
      h("td", { class: "spark", "aria-hidden": "true" }, spark(gain.among?.f1 ?? 0, most)), gained(gain.among?.accuracy),
    ] : null);
}

/** @param {any} row of evaluation.rules @returns {any[]} words that mark a rule that hurts, or that is not needed */
export function marks(row) {
  const word = verdict(row), needless = idle(row);
  return [
    word.endsWith("hurt") || word === "hurts" ? h("span", { class: `word ${word === "hurts" ? "" : "perhaps"}`, title: "Without this rule, F1 would be higher" }, word) : null,
    needless ? h("span", { class: "word idle", title: needless === "never fires" ? "No labels break it, and nothing changes without it" : "Labels break it, but the other rules repair the same" }, needless) : null,
  ];
}

/** @param {number} g @param {number} most @returns {any} a bar to the right for a gain, to the left for a loss */
function spark(g, most) {
  const width = `${number((Math.abs(g) / most) * 50, { digits: 1 })}%`;
  return h("span", { class: "axis" }, h("span", { class: g < 0 ? "loss" : "gain", style: { width, [g < 0 ? "right" : "left"]: "50%" } }));
}

// ---- what is still wrong ----

/** @param {any} evaluation @param {import("./state.js").Store} store @returns {any} */
function mistakes(evaluation, store) {
  if (!evaluation.mistakes.length) return null;
  const causes = /** @type {Object<string, string>} */ ({ model: "the model; no rule changes it", rules: "the rules; it was right without them", both: "the rules changed one mistake to another" });
  const rows = evaluation.mistakes.map((/** @type {any} */ m) => h("tr", {},
    h("th", { scope: "row" }, m.gold), h("td", {}, m.guess), h("td", { class: "number" }, figureLink(store, mistakeKey(m), m.count)),
    h("td", { class: m.cause === "rules" ? "bad" : "" }, causes[m.cause])));
  return h("details", { id: "mistakes" }, h("summary", {}, "Tokens that are still wrong, by cause"), h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Mistakes, scrollable" },
    h("table", {}, h("thead", {}, h("tr", {}, ["gold", "found", "tokens", "cause"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows))));
}
