/**
 * The result: labels without and with rules, the proof, the clash, and notes about what could not be answered.
 *
 * @typedef {{showTrellis: (wanted: boolean) => void}} Actions
 */

import { byId, fill, h } from "./dom.js";
import { drawLabels, light } from "./labels.js";
import { shown } from "./state.js";
import { drawAlternatives, drawEffects, drawProbabilities } from "./why.js";
import { capital, counted, lineLink, number, problem } from "./words.js";

const KEPT = ["constrained", "effects", "alternatives", "proof"]; // parts that keep their height while rules change
const STILL = 1000; // milliseconds until it is said that the result is an older one

/**
 * The proof in words.
 *
 * @param {any} best of /explain
 * @returns {string}
 */
export function proof(best) {
  const score = number(best.score);
  if (best.status === "relaxed") return `hard rules contradict each other here, and as few as possible are broken; score ${score}`;
  if (best.optimal) return `proved: no labels that obey the rules have a higher score than ${score}`;
  return `not proved: score ${score}; no labels that obey the rules have a higher score than ${number(best.bound)}`;
}

/**
 * One line about the result, for the status.
 *
 * @param {any} explanation answer of /explain
 * @returns {string}
 */
export function summary(explanation) {
  const n = explanation.tokens.length;
  const changes = explanation.changed.length ? `${explanation.changed.length} of ${counted(n, "token")} changed by the rules` : `${counted(n, "token")}, none changed by the rules`;
  return `${changes}; ${proof(explanation.best)}`;
}

/**
 * @param {import("./state.js").Store} store
 * @param {Actions} actions
 */
export function createResultPane(store, actions) {
  const answer = byId("answer");
  let stale = 0, sameText = false;
  drawTrellis(store.get(), actions);
  answer.addEventListener("mouseover", (/** @type {any} */ event) => follow(event.target));
  answer.addEventListener("focusin", (/** @type {any} */ event) => follow(event.target));
  answer.addEventListener("mouseleave", () => light(answer, []));
  answer.addEventListener("focusout", () => light(answer, []));

  /** @type {Element|null} */
  let followed = null;
  /** @param {Element} target */
  function follow(target) {
    const item = target.closest("[data-at]");
    if (item === followed) return;
    followed = item;
    light(answer, item ? /** @type {any} */ (item).dataset.at.split(",").filter(Boolean).map(Number) : []);
  }

  store.subscribe((state, changed) => {
    if (["explain", "explainError", "text", "index", "data", "model"].some((key) => changed.has(key))) drawNote(state, store);
    if (changed.has("explainError")) {
      clearTimeout(stale); // not during typing: what is being typed cannot be read most of the time
      const mark = () => { byId("stale").hidden = !(state.explain && store.get().explainError); };
      if (state.explainError) stale = window.setTimeout(mark, STILL);
      else mark();
    }
    if (["text", "index", "data", "model"].some((key) => changed.has(key))) sameText = false;
    if (changed.has("explain") || changed.has("model")) {
      followed = null;
      for (const id of KEPT) {
        if (sameText) keepHeight(byId(id));
        else byId(id).style.minHeight = "";
      }
      sameText = true;
      drawAnswer(state, store);
    }
    byId("trellis").hidden = Boolean(state.explain?.partial);
    if (changed.has("picture") || changed.has("explain")) drawTrellis(state, actions);
  });
}

/** While rules change, nothing below moves up again: a part keeps the height that it had for this text. @param {any} element */
function keepHeight(element) {
  element.style.minHeight = `${Math.max(parseFloat(element.style.minHeight) || 0, element.offsetHeight)}px`;
}

/** @param {import("./state.js").State} state @param {import("./state.js").Store} store */
function drawNote(state, store) {
  const explanation = state.explain, error = state.explainError;
  byId("answer").hidden = !explanation;
  if (error && (!explanation || error.code !== "unreadable")) { // rules that cannot be read are marked where they stand
    fill(byId("note"), error.code === "unreadable" ? h("p", { class: "dim" }, "The rules cannot be read yet.") : problem(error, store));
  } else if (!shown(state).text.trim()) {
    fill(byId("note"), h("p", { class: "dim" }, "Write or paste a text, or load labelled data. The labels appear here."));
  } else {
    fill(byId("note"));
  }
}

/** @param {import("./state.js").State} state @param {import("./state.js").Store} store */
function drawAnswer(state, store) {
  const explanation = state.explain, model = state.model;
  drawClash(explanation, store);
  if (!explanation) return;
  const { plain, best, gold } = explanation;
  drawLabels(byId("plain"), model, explanation, plain.labels, { gold });
  drawLabels(byId("constrained"), model, explanation, best.labels, { was: plain.labels, gold });
  byId("gold").hidden = !gold;
  if (gold) drawLabels(byId("gold-labels"), model, explanation, gold.map((/** @type {string|null} */ label) => label ?? "O"));
  const marks = [
    explanation.changed.length ? h("span", {}, h("span", { class: "changed" }, "underlined"), ": changed by the rules. ") : null,
    gold ? h("span", {}, h("span", { class: "wrong" }, "≠"), ": differs from gold. ") : null,
  ];
  fill(byId("proof"), marks, capital(proof(best)),
    best.penalty ? `, after penalties of ${number(best.penalty)}` : "", explanation.cost > 0 ? `. The rules cost ${number(explanation.cost)}` : "", ".");
  drawEffects(byId("effects"), explanation, store);
  drawAlternatives(byId("alternatives"), explanation, model);
  drawProbabilities(byId("probabilities"), explanation, model);
}

/** @param {any} explanation @param {import("./state.js").Store} store */
function drawClash(explanation, store) {
  if (explanation?.best.status !== "relaxed" && !explanation?.clash.length) return fill(byId("clash"));
  const rules = explanation.clash.map((/** @type {any} */ c) => h("li", {}, lineLink(store, c.line, c.rule)));
  return fill(byId("clash"), h("div", { class: "problem" },
    h("p", {}, h("strong", {}, rules.length ? "These rules cannot hold together here." : "No labels obey the hard rules.")),
    rules.length ? h("ul", {}, rules) : null,
    h("p", {}, "The result breaks hard rules as few times as possible. Remove one of them, or give one a penalty.")));
}

/** @param {any} state @param {Actions} actions */
function drawTrellis(state, actions) {
  const { wanted, svg, error } = state.picture;
  const button = h("button", {
    type: "button", "aria-expanded": String(wanted), onclick: () => {
      actions.showTrellis(!wanted);
      byId("trellis").querySelector("button").focus();
    },
  }, wanted ? "Hide the trellis" : "Show the trellis");
  const words = "The trellis: tokens from left to right, labels from top to bottom, the path without rules (dashed) and with rules (bold)";
  const picture = wanted && svg ? h("div", { class: "picture", tabindex: 0, role: "group", "aria-label": "Trellis, scrollable" },
    h("img", { src: `data:image/svg+xml;utf8,${encodeURIComponent(svg)}`, alt: words })) : null;
  const waiting = wanted && !svg && !error ? h("p", { class: "dim" }, "Drawing …") : null;
  const focused = byId("trellis").contains(document.activeElement) && document.activeElement?.tagName === "BUTTON";
  fill(byId("trellis"), button, wanted && error ? h("p", { class: "bad" }, error.what) : null, waiting, picture);
  if (focused) button.focus();
}
