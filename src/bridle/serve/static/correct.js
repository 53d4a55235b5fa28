/**
 * Corrections: tokens are chosen by a click, by dragging or by the keyboard; then the right label; then one of the rules
 * that the server suggests. The correction becomes a test case.
 */
import { api } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { segments, typeClass } from "./labels.js";
import { testCase } from "./rule_checks.js";
import { addRule, addSpans } from "./rules_text.js";
import { shown } from "./state.js";
import { counted, interval, number, problem, signed } from "./words.js";

const ROWS = "#plain, #constrained, #gold-labels";

/**
 * @param {import("./asking.js").Desk} desk
 * @param {{rules: () => string, tell: (text: string) => void}} asking   the rules that requests send, and what is said with the result
 * @param {import("./rule_list.js").Edit} edit
 * @param {() => import("./language.js").Language} language
 */
export function createCorrections({ store, say, busy, worth }, asking, edit, language) {
  const panel = byId("correction");
  /** @type {{start: number, end: number}|null} the tokens that are chosen; end: after the last one */
  let chosen = null;
  let from = -1, dragged = false; // of a drag
  let cursor = -1; // of the keyboard

  /** @param {EventTarget|null} target @returns {number} the token at this place, -1 if there is none */
  const tokenAt = (target) => Number(/** @type {any} */ (target instanceof Element ? target.closest(".token") : null)?.dataset.t ?? -1);

  /** @param {number} a @param {number} b */
  function choose(a, b) {
    chosen = { start: Math.min(a, b), end: Math.max(a, b) + 1 };
    for (const token of byId("answer").querySelectorAll(".token")) {
      const t = Number(token.dataset.t);
      token.classList.toggle("chosen", t >= chosen.start && t < chosen.end);
    }
  }

  /** Wrong tokens with the same labels belong together. @param {number} t */
  function chooseAround(t) {
    const { best, gold } = store.get().explain;
    const same = (/** @type {number} */ u) => gold && gold[t] !== best.labels[t] && best.labels[u] === best.labels[t] && gold[u] === gold[t];
    let [a, b] = [t, t];
    while (a > 0 && same(a - 1)) a -= 1;
    while (b + 1 < best.labels.length && same(b + 1)) b += 1;
    choose(a, b);
  }

  function close() {
    chosen = null;
    cursor = -1;
    for (const token of byId("answer").querySelectorAll(".token.chosen")) token.classList.remove("chosen");
    fill(panel);
  }

  for (const row of byId("answer").querySelectorAll(ROWS)) {
    row.addEventListener("pointerdown", (/** @type {any} */ event) => {
      from = event.button === 0 ? tokenAt(event.target) : -1;
      dragged = false;
      if (from >= 0 && event.pointerType === "mouse") event.preventDefault(); // no selection of text
    });
    row.addEventListener("pointermove", (/** @type {any} */ event) => {
      const t = from < 0 || !event.buttons ? -1 : tokenAt(document.elementFromPoint(event.clientX, event.clientY));
      if (t < 0 || (t === from && !dragged)) return;
      dragged = true;
      choose(from, t);
    });
    row.addEventListener("pointerup", (/** @type {any} */ event) => {
      if (from < 0) return;
      if (event.shiftKey && chosen) choose(chosen.start, from);
      else if (!dragged) chooseAround(from);
      from = -1;
      ask();
    });
    row.addEventListener("keydown", (/** @type {any} */ event) => {
      const count = store.get().explain?.tokens.length ?? 0;
      if (event.key === "Escape") return close();
      if (event.key === "Enter" && chosen && event.target === row) { event.preventDefault(); return ask(true); }
      const step = { ArrowRight: 1, ArrowLeft: -1 }[/** @type {string} */ (event.key)];
      if (!step || event.altKey || event.ctrlKey || event.metaKey || event.target !== row || !count) return undefined;
      event.preventDefault();
      const anchor = event.shiftKey && chosen ? (cursor === chosen.start ? chosen.end - 1 : chosen.start) : -1;
      cursor = Math.min(Math.max(cursor + step, 0), count - 1);
      choose(anchor < 0 ? cursor : anchor, cursor);
      say(`${store.get().explain.tokens[cursor]}: ${store.get().explain.best.labels[cursor]}. Enter: correct it.`);
      return undefined;
    });
  }

  /** @param {number} start @param {number} end @returns {string} these tokens, as they stand in the text */
  function words(start, end) {
    const { tokens, offsets } = store.get().explain, { text } = shown(store.get());
    return offsets ? [...text].slice(offsets[start][0], offsets[end - 1][1]).join("") : tokens.slice(start, end).join(" ");
  }

  /** A button that chooses a further token, where nothing can be dragged. @param {string} sign @param {string} does @param {number} before @param {number} after @returns {any} */
  function grow(sign, does, before, after) {
    const { start, end } = /** @type {any} */ (chosen), a = start + before, b = end - 1 + after;
    const onclick = () => {
      choose(a, b);
      ask();
      panel.querySelector(`.grow[aria-label="${does}"]`)?.focus();
    };
    return h("button", { type: "button", class: "small grow", title: does, "aria-label": does, hidden: a < 0 || b >= store.get().explain.tokens.length, onclick }, sign);
  }

  /** @param {boolean} [focus] */
  function ask(focus = false) {
    const { explain, model } = store.get();
    if (!chosen || !explain || explain.partial) return;
    const { start, end } = chosen;
    const gold = [...new Set((explain.gold ?? []).slice(start, end))];
    const right = gold.length === 1 ? typeOf(model, gold[0]) : null;
    const outside = model.labels.filter((/** @type {string} */ label) => !typeClass(model, label));
    const names = [...new Set([...(right ? [right] : []), ...model.types, ...outside])];
    fill(panel, h("div", { class: "card", role: "group", "aria-label": "Correct a label" },
      h("button", { type: "button", class: "close", "aria-label": "Close", onclick: close }, "×"),
      h("p", {}, h("strong", {}, "Choose the right label of "), grow("←", "Add the token before", -1, 0), " ", h("bdi", { class: "bit" }, words(start, end)), " ",
        grow("→", "Add the token after", 0, 1), h("strong", {}, ":")),
      h("div", { class: "row labels" }, names.map((name) => h("button", {
        type: "button", class: `pick ${typeClass(model, labelOf(model, name))}`, onclick: () => suggest(name),
      }, h("bdi", {}, name), name === right ? h("small", {}, " gold") : null))),
      h("div", { id: "suggestions", "aria-live": "polite" })));
    panel.scrollIntoView({ block: "nearest" });
    if (focus) panel.querySelector(".pick")?.focus();
  }

  /** @param {string} label */
  async function suggest(label) {
    const { data, explain, model } = store.get(), { sequence } = shown(store.get());
    if (!chosen) return;
    const { start, end } = chosen, box = byId("suggestions");
    fill(box, h("p", { class: "dim" }, "Looking for rules …"));
    for (const button of panel.querySelectorAll(".pick")) button.setAttribute("aria-pressed", String(button.firstChild?.textContent === label));
    const columns = sequence?.columns ?? { [model.columns[0]]: explain.tokens };
    try {
      const answer = await busy(api.suggest({ columns, at: [start, end], label, rules: asking.rules(), data: data?.id ?? undefined }));
      if (chosen?.start === start && chosen.end === end) draw(box, answer);
    } catch (error) {
      const failure = worth(error);
      if (failure) fill(box, problem(failure, store));
    }
  }

  /** @param {any} box @param {any} answer */
  function draw(box, answer) {
    const only = h("button", { type: "button", class: "link", onclick: () => accept(null, answer.labels) }, "Only add a test case for it");
    fill(box,
      answer.message ? h("p", {}, answer.message) : h("p", { class: "dim" }, "Each of these rules repairs it. What else they do to the loaded data:"),
      h("ol", { class: "suggested" }, answer.suggestions.map((/** @type {any} */ each) => h("li", {},
        h("span", { class: "rule" }, each.rule), h("span", { class: "dim why" }, each.reason),
        h("span", { class: "effect" }, effectOf(each.effect), h("span", { class: "dim" }, `${each.effect ? "; " : ""}costs ${number(each.price)} here`)),
        h("button", { type: "button", class: "accept", "aria-label": `Use the rule ${each.rule}`, onclick: () => accept(each.rule, answer.labels) }, "Use this rule")))),
      store.get().model.takes_text ? only : null);
    panel.scrollIntoView({ block: "nearest" });
  }

  /** @param {string|null} rule @param {string[]} labels with the correction */
  function accept(rule, labels) {
    if (!chosen) return;
    const { start, end } = chosen, { explain, model } = store.get();
    const keys = (/** @type {string[]} */ of) => new Set(segments(model, of).map((segment) => JSON.stringify(segment)));
    const now = keys(explain.best.labels), gold = explain.gold?.map((/** @type {string|null} */ label) => label ?? "O");
    const isGold = gold?.slice(start, end).every((/** @type {string} */ label, /** @type {number} */ k) => typeOf(model, label) === typeOf(model, labels[start + k]));
    const right = isGold ? keys(gold) : null; // a test case must not say what gold denies
    const corrected = (/** @type {import("./labels.js").Segment} */ segment) => {
      const key = JSON.stringify(segment);
      return segment.start <= end && segment.end >= start && !now.has(key) && (!right || right.has(key));
    };
    const example = model.takes_text ? testCase(store.get(), rule === null && isGold ? gold : labels, corrected) : null;
    const spans = example?.spans ?? [];
    edit((text) => {
      const longer = rule === null ? text : addRule(text, rule);
      return example && spans.length ? addSpans(longer, example.text, spans, language()) : longer;
    });
    const added = [rule === null ? "" : "the rule", spans.length ? "the correction as a test case" : ""].filter(Boolean).join(" and ");
    asking.tell(added ? `Added ${added}. Undo takes it out.` : "There is no segment here that a test case could name.");
    close();
    byId("constrained").focus();
  }

  store.subscribe((state, changed) => {
    if (["text", "index", "data", "model"].some((key) => changed.has(key))) close();
    else if (changed.has("explain") && chosen && state.explain) choose(chosen.start, chosen.end - 1);
  });
}

/**
 * The effect of a rule on the data in words.
 *
 * @param {any} effect of a suggestion or a learned rule; null without data
 * @returns {any[]}
 */
export function effectOf(effect) {
  if (!effect) return [];
  if (effect.right === null) return [h("span", {}, `changes ${counted(effect.changed.length, "sequence")}`)];
  return [
    h("span", { class: effect.right ? "good" : "dim" }, `${counted(effect.right, "token becomes", "tokens become")} right`), ", ", h("span", { class: effect.wrong ? "bad" : "dim" }, `${effect.wrong} wrong`),
    effect.gain ? [", F1 ", signed(effect.gain.gain), h("span", { class: "dim" }, ` (${interval(effect.gain)})`)] : null,
    effect.gold_breaks ? h("span", { class: "breaks" }, `; gold breaks it ${effect.gold_breaks}×`) : null,
  ];
}

/** @param {any} model @param {string|null} label @returns {string|null} its type, or itself outside of segments */
function typeOf(model, label) {
  if (label === null) return null;
  return model.types.find((/** @type {string} */ type) => label === type || label.slice(2) === type) ?? label;
}

/** @param {any} model @param {string} name of a type or a label @returns {string} a label of it */
function labelOf(model, name) {
  return model.labels.includes(name) ? name : model.labels.find((/** @type {string} */ label) => label.slice(2) === name) ?? name;
}
