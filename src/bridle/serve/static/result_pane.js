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

/**
 * The proof in words.
 *
 * @param {any} best of /explain
 * @returns {string}
 */
export function proof(best) {
  const score = number(best.score);
  if (best.status === "relaxed") return `relaxed: the hard rules are broken as few times as possible; score ${score}`;
  if (best.optimal) return `proved optimal: score ${score} = bound`;
  return `not proved optimal: score ${score}, bound ${number(best.bound)}, gap ${number(best.bound - best.score)}`;
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
    if (changed.has("explain") || changed.has("model")) {
      followed = null;
      drawAnswer(state, store);
    }
    byId("trellis").hidden = Boolean(state.explain?.partial);
    if (changed.has("picture") || changed.has("explain")) drawTrellis(state, actions);
  });
}

/** @param {import("./state.js").State} state @param {import("./state.js").Store} store */
function drawNote(state, store) {
  const explanation = state.explain, error = state.explainError;
  byId("answer").hidden = !explanation;
  byId("answer").classList.toggle("old", Boolean(explanation && error));
  byId("clash").classList.toggle("old", Boolean(explanation && error));
  if (error) {
    const note = explanation ? h("p", { class: "dim" }, "Below is the last result that could be computed.") : null;
    fill(byId("note"), problem(error, store), note);
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
    h("p", {}, h("strong", {}, rules.length ? "These rules cannot hold together here." : "No labelling obeys the hard rules.")),
    rules.length ? h("ul", {}, rules) : null,
    h("p", {}, "The result is relaxed: it breaks hard rules as few times as possible. Remove one of them, or give one a penalty.")));
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
