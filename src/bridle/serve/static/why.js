/** Why these labels: which rule bit where and at what price, penalties, alternatives, and probabilities. */

import { fill, h } from "./dom.js";
import { typeClass } from "./labels.js";
import { capital, counted, lineLink, number, percent, places, runs } from "./words.js";

const PRICE = "How much the score would rise without this rule, the others kept. Prices do not have to add up.";
const LEAST = 1e-9; // a price below this is none
const MOST = 60; // tokens of a quotation, bars, rows of a table: more are cut

/**
 * @param {Element} root
 * @param {any} explanation answer of /explain
 * @param {import("./state.js").Store} store
 */
export function drawEffects(root, explanation, store) {
  const effects = explanation.effects.map((/** @type {any} */ effect, /** @type {number} */ k) => h("li", { "data-at": effect.at.join(","), tabindex: effect.line ? null : 0 },
    h("span", { class: "dim", title: "Its number in the trellis" }, k + 1), lineLink(store, effect.line, effect.rule),
    h("span", { class: "price", title: PRICE }, price(effect)),
    h("span", { class: "dim detail" },
      effect.broken_by_plain ? `broken ${effect.broken_by_plain}× without rules${effect.at.length ? "; " : ""}` : "",
      effect.at.length ? [`changed ${effect.at.length === 1 ? "token" : "tokens"} ${places(effect.at)}: `, quoted(explanation.tokens, effect.at)] : null,
      twins(explanation, effect))));
  const paid = explanation.best.violated.map((/** @type {any} */ v) => h("li", {},
    lineLink(store, v.line, v.rule),
    h("span", { class: "price" }, v.cost ? `penalty ${number(v.cost)}` : "hard rule"),
    h("span", { class: "dim detail" }, `broken ${v.times}× by the labels with rules`)));
  const silent = explanation.partial ? "The text is too long to say which rule changed what." : explanation.changed.length ? "No single rule is responsible: each of these changes has several reasons." : "The rules changed no label of this text.";
  fill(root,
    effects.length ? h("ul", { class: "effects numbered" }, effects) : h("p", { class: "dim" }, silent),
    paid.length ? [h("h4", {}, explanation.best.penalty ? "Penalties paid" : "Rules broken"), h("ul", { class: "effects" }, paid)] : null);
}

/** @param {any} effect @returns {string} */
function price(effect) {
  if (effect.proved) return `costs ${number(effect.price)}`;
  return effect.price > LEAST ? `costs about ${number(effect.price)}` : "costs ?";
}

/** @param {any} explanation @param {any} effect @returns {string} other rules that ask for the same, so this one alone costs nothing */
function twins(explanation, effect) {
  if (effect.price > LEAST || !effect.proved) return "";
  const lines = explanation.effects.filter((/** @type {any} */ other) => other !== effect && other.line && other.at.some((/** @type {number} */ t) => effect.at.includes(t)))
    .map((/** @type {any} */ other) => other.line);
  return lines.length ? `(together with ${lines.length > 1 ? "lines" : "line"} ${lines.join(", ")})` : "";
}

/** @param {string[]} tokens @param {number[]} at in order @returns {any[]} */
function quoted(tokens, at) {
  const parts = runs(at).slice(0, 4).map(([a, b]) => [bit(tokens, a, b), " "]);
  return [...parts, runs(at).length > 4 ? "…" : null];
}

/** @param {string[]} tokens @param {number} a @param {number} b the last one @returns {any} these tokens, cut if there are many */
function bit(tokens, a, b) {
  const text = tokens.slice(a, Math.min(b + 1, a + MOST)).join(" ");
  return h("bdi", { class: "bit" }, text.length > 60 ? `${text.slice(0, 60)} …` : text);
}

/**
 * @param {Element} root
 * @param {any} explanation
 * @param {any} model
 */
export function drawAlternatives(root, explanation, model) {
  const best = explanation.best.labels;
  const items = explanation.alternatives.map((/** @type {any} */ other) => {
    const at = other.labels.flatMap((/** @type {string} */ label, /** @type {number} */ t) => (label === best[t] ? [] : [t]));
    const parts = runs(at, (a, b) => best[a] === best[b] && other.labels[a] === other.labels[b]);
    const changes = parts.slice(0, 8).map(([a, b]) => h("span", { class: "instead" },
      bit(explanation.tokens, a, b), " ",
      tag(model, best[a]), " → ", tag(model, other.labels[a])));
    return h("li", { "data-at": at.join(","), tabindex: 0 },
      h("span", { class: "price" }, number(-Math.abs(other.difference))), h("span", {}, changes, parts.length > 8 ? ` and ${parts.length - 8} more places` : ""));
  });
  fill(root,
    items.length ? h("ol", { class: "effects" }, items) : null,
    explanation.alternatives_missing ? h("p", { class: "dim" }, `${capital(explanation.alternatives_missing)}.`) : null,
    !items.length && !explanation.alternatives_missing ? h("p", { class: "dim" }, "There is no other labelling under these rules.") : null);
}

/** @param {any} model @param {string} label @returns {any} its name in its colour */
function tag(model, label) {
  return h("b", { class: `tag ${typeClass(model, label)}` }, h("bdi", {}, label));
}

/**
 * Bars over the tokens, and the same as a table.
 *
 * @param {Element} root
 * @param {any} explanation
 * @param {any} model
 */
export function drawProbabilities(root, explanation, model) {
  const best = explanation.probabilities?.best, plain = explanation.probabilities?.plain;
  const sure = best ?? plain;
  if (!sure?.length) {
    fill(root, h("p", { class: "dim" }, explanation.partial ? "Too long a text." : "Probabilities cannot be computed here."));
    return;
  }
  const labels = best ? explanation.best.labels : explanation.plain.labels;
  const said = (/** @type {number} */ t) => `${labels[t]} ${percent(sure[t])}`;
  const bars = sure.slice(0, 4 * MOST).map((/** @type {number} */ p, /** @type {number} */ t) => h("span", {
    class: `bar ${typeClass(model, labels[t])}`, title: `${explanation.tokens[t]}: ${said(t)}`, "data-at": t, style: { "--share": `${Math.max(3, p * 100)}%` },
  }));
  const least = sure.reduce((/** @type {number} */ a, /** @type {number} */ p, /** @type {number} */ t) => (p < sure[a] ? t : a), 0);
  const known = root.querySelector("details")?.open;
  const table = h("details", { open: known ?? false }, h("summary", {}, "As a table"));
  const show = () => {
    if (table.open && table.children.length < 2) table.append(probabilityTable(explanation, plain, best));
  };
  table.addEventListener("toggle", show);
  fill(root,
    h("div", { class: "bars", "aria-hidden": "true", dir: "ltr" }, bars),
    h("p", { class: "dim" }, `${best ? "Given the hard rules; penalties are not counted" : "Without rules"}. Least sure: `, bit(explanation.tokens, least, least), ` ${said(least)}.`,
      sure.length > bars.length ? ` The first ${counted(bars.length, "token")} are drawn.` : ""),
    table);
  show();
}

/** @param {any} explanation @param {number[]|null} plain @param {number[]|null} best @returns {any} */
function probabilityTable(explanation, plain, best) {
  const rows = explanation.tokens.slice(0, 10 * MOST).map((/** @type {string} */ token, /** @type {number} */ t) => h("tr", {},
    h("td", { class: "number" }, t), h("th", { scope: "row", dir: "auto" }, token),
    h("td", {}, explanation.plain.labels[t]), h("td", { class: "number" }, percent(plain?.[t])),
    h("td", {}, explanation.best.labels[t]), h("td", { class: "number" }, percent(best?.[t]))));
  return h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Probabilities, scrollable" }, h("table", {},
    h("thead", {}, h("tr", {}, ["", "token", "without rules", "", "with rules", ""].map((name) => h("th", { scope: name ? "col" : null }, name)))),
    h("tbody", {}, rows)));
}
