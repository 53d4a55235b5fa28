/**
 * The pane with the rules: the editor, a list of rules with switches and sliders, findings, test cases. Everything
 * follows from the text `store.rules`; every control edits that text.
 *
 * @typedef {import("./state.js").Store} Store
 */
import { fill, h, isTyping } from "./dom.js";
import { createEditor, PAUSE } from "./editor.js";
import { createLanguage } from "./language.js";
import { createExamples, createFindings } from "./rule_checks.js";
import { createRuleList } from "./rule_list.js";

const TYPING = 150; // milliseconds that the lists wait for further letters

/**
 * @param {Element} root   what it has stays
 * @param {Store} store
 * @param {(text: string) => void} [announce] writes the status line
 * @param {(line: number) => void} [tuneLine] finds the best penalty of the rule of a line
 */
export function createRulesPane(root, store, announce = () => {}, tuneLine = () => {}) {
  let language = createLanguage();
  /** @type {Set<string>} */
  const waiting = new Set();

  /** @type {import("./rule_list.js").Edit} */
  const edit = (change, group) => {
    const text = change(store.get().rules);
    editor.setText(text, group);
    store.set({ rules: editor.text() });
  };

  const editor = createEditor(root, {
    value: store.get().rules, onChange: (text) => store.set({ rules: text }), onFix: (finding) => findings.fix(finding),
  });
  const keys = h("p", { class: "dim keys", "aria-hidden": "true" },
    [["Ctrl Space", "completions"], ["Ctrl /", "comment"], ["F8", "next finding"], ["Ctrl .", "quick fix"]]
      .map(([key, does]) => h("span", {}, h("kbd", {}, key), ` ${does}`)));
  const lists = { findings: h("ul", { id: "findings" }), rules: h("ul", { id: "rule-list" }), examples: h("ul", { id: "examples-list" }) };
  const counts = { findings: h("span", { class: "dim" }), rules: h("span", { class: "dim" }), examples: h("span", { class: "dim" }) };
  const tools = h("section", { id: "tools", "aria-label": "Compare, tune and learn" });
  const errorBox = h("div", { id: "examples-error" });
  const add = h("button", { id: "add-example", type: "button" }, "Add the current result as a test case");
  root.append(keys,
    h("section", { "aria-label": "Findings" }, h("h3", {}, "Findings ", counts.findings), lists.findings),
    tools,
    h("section", { "aria-label": "Each rule" }, h("h3", {}, "Each rule ", counts.rules), lists.rules),
    h("section", { "aria-label": "Test cases" }, h("h3", {}, "Test cases ", counts.examples), errorBox, lists.examples, add));

  const findings = createFindings(lists.findings, store, edit);
  const rules = createRuleList(lists.rules, store, edit, tuneLine);
  const examples = createExamples({ list: lists.examples, button: add, errorBox }, store, edit, () => language, announce);

  root.addEventListener("keydown", (/** @type {any} */ event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey || isTyping(event.target) || !/^[zy]$/i.test(event.key)) return;
    event.preventDefault();
    if (event.key.toLowerCase() === "y" || event.shiftKey) editor.redo();
    else editor.undo();
  });

  let timer = 0;
  /** Show what the linter says, but not about a line that is being typed. */
  function showFindings() {
    const { check, rules: text } = store.get();
    if (check && check.text !== text) return; // of an older text, whose lines had other numbers
    const all = check?.findings ?? [], line = editor.unfinished();
    const rank = (/** @type {any} */ finding) => Number(finding.level !== "error"); // errors first: they hold up everything
    const shown = all.filter((/** @type {any} */ finding) => !line || finding.line !== line).sort((/** @type {any} */ a, /** @type {any} */ b) => rank(a) - rank(b));
    editor.setFindings(shown);
    findings.draw(store.get(), shown);
    say("findings", plural(shown.length, "none"));
    clearTimeout(timer);
    if (line) timer = window.setTimeout(showFindings, PAUSE);
  }

  function drawLists() {
    const state = store.get();
    waiting.clear();
    rules.draw(state, language);
    examples.draw(state);
    const off = lists.rules.querySelectorAll(".off").length;
    say("rules", plural(lists.rules.children.length, "none yet") + (off ? `, ${off} off` : ""));
    const failed = lists.examples.querySelectorAll(".failed").length;
    say("examples", plural(lists.examples.children.length, "none yet") + (failed ? `, ${failed} failed` : ""));
  }

  /** @param {keyof typeof counts} which @param {string} text */
  const say = (which, text) => counts[which].textContent === text || fill(counts[which], text);

  store.subscribe((state, changed) => {
    if (changed.has("rules")) {
      const text = state.rules.replace(/\r\n?/g, "\n");
      if (changed.has("model")) editor.reset(text);
      else editor.setText(text);
      if (editor.text() !== state.rules) return store.set({ rules: editor.text() });
    }
    if (changed.has("model") || changed.has("sentences")) {
      language = createLanguage({ ...state.model, sentences: state.sentences });
      editor.setLanguage(language);
    }
    if (changed.has("check")) showFindings();
    if (changed.has("evaluation")) rules.setFigures(state);
    if (["rules", "text", "data", "index"].some((key) => changed.has(key))) examples.setFresh("result", false);
    if (changed.has("rules")) examples.setFresh("tests", false);
    if (changed.has("tests")) examples.setFresh("tests", true);
    if (changed.has("explain")) examples.setFresh("result", true);
    if (changed.has("goto") && state.goto) editor.goTo(state.goto.line);
    const drawn = ["rules", "model", "sentences", "check", "evaluation", "curves", "tests", "testsError", "explain", "explainError", "text", "index"].filter((key) => changed.has(key));
    if (!drawn.length) return undefined;
    if (!waiting.size) { // during typing, the letters come first
      if (editor.unfinished()) setTimeout(drawLists, TYPING);
      else requestAnimationFrame(drawLists);
    }
    drawn.forEach((key) => waiting.add(key));
    return undefined;
  });
  drawLists();
  return { edit, tools, language: () => language, undo: editor.undo, redo: editor.redo };
}

/** @param {number} count @param {string} none @returns {string} */
function plural(count, none) {
  return count ? String(count) : none;
}
