/** A baseline: rules that were pinned, with which the present ones are compared, line by line and in figures. */

import { fill, h } from "./dom.js";
import { figureLink } from "./filters.js";
import { linesOf } from "./language.js";

/**
 * Lines that only one of two texts has.
 *
 * @param {string} before
 * @param {string} after
 * @returns {{sign: "+"|"−", text: string, line: number}[]} in the order of the texts; line: in the second one, 0 if it has none
 */
export function changes(before, after) {
  const [old, now] = [before, after].map((text) => linesOf(text).map((line) => line.trim()));
  const table = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1)); // longest common part of the ends
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) table[i][j] = old[i] === now[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  }
  /** @type {{sign: "+"|"−", text: string, line: number}[]} */
  const found = [];
  for (let i = 0, j = 0; i < old.length || j < now.length;) {
    if (i < old.length && j < now.length && old[i] === now[j]) { i += 1; j += 1; continue; }
    const gone = j >= now.length || (i < old.length && table[i + 1][j] >= table[i][j + 1]);
    if (gone) found.push({ sign: "−", text: old[i++], line: 0 });
    else found.push({ sign: "+", text: now[j++], line: j });
  }
  return found.filter(({ text }) => text);
}

/**
 * @param {HTMLElement} root
 * @param {import("./state.js").Store} store
 * @param {import("./rule_list.js").Edit} edit
 */
export function createBaseline(root, store, edit) {
  const pin = h("button", { type: "button", id: "pin", title: "Compare with these rules from now on" }, "Pin as baseline");
  const body = h("div", { id: "baseline" });
  root.append(pin, body);
  pin.addEventListener("click", () => {
    const { rules, evaluation } = store.get();
    store.set({ baseline: { rules, evaluation } });
  });

  function draw() {
    const { baseline, rules, evaluation } = store.get();
    if (!baseline) return fill(body);
    const found = changes(baseline.rules, rules), then = baseline.evaluation;
    const comparable = then?.errors && evaluation?.errors?.length === then.errors.length;
    const counts = !comparable ? null : [["gained", "better"], ["lost", "worse"]].map(([key, word]) => {
      const n = evaluation.errors.filter((/** @type {number} */ wrong, /** @type {number} */ k) => (key === "gained" ? wrong < then.errors[k] : wrong > then.errors[k])).length;
      return [" ", figureLink(store, key, `${n} ${word}`)];
    });
    return fill(body, h("p", { class: "dim" }, found.length ? "Compared with the baseline:" : "The rules are those of the baseline.", found.length ? counts : null, " ",
      h("button", { type: "button", class: "link", onclick: () => edit(() => baseline.rules) }, "Go back to it"), " · ",
      h("button", { type: "button", class: "link", onclick: () => store.set({ baseline: null }) }, "Forget it")),
    found.length ? h("ul", { class: "diff" }, found.slice(0, 200).map(({ sign, text }) => h("li", { class: sign === "+" ? "added" : "removed" },
      h("span", { class: "unseen" }, sign === "+" ? "added: " : "removed: "), h("span", { "aria-hidden": "true" }, `${sign} `), h("span", { class: "rule" }, text)))) : null);
  }
  store.subscribe((_, changed) => {
    if (changed.has("baseline") || (store.get().baseline && (changed.has("rules") || changed.has("evaluation")))) draw();
  });
}
