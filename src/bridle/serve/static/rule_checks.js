/**
 * What was found out about the rules: the findings of the linter with their quick fixes, and the test cases.
 *
 * @typedef {import("./state.js").State} State
 * @typedef {import("./state.js").Store} Store
 * @typedef {import("./language.js").Language} Language
 * @typedef {import("./rule_list.js").Edit} Edit
 */
import { fill, h } from "./dom.js";
import { segments } from "./labels.js";
import { linesOf, readLine, shownName } from "./language.js";
import { LEVELS } from "./layer.js";
import { addExample, applyFix, linesOfExample, textOfExample } from "./rules_text.js";
import { shown } from "./state.js";
import { lineLink, problem } from "./words.js";

/**
 * @param {HTMLElement} list   an <ul>
 * @param {Store} store
 * @param {Edit} edit
 * @returns {{draw: (state: State, findings: any[]) => void, fix: (finding: any) => void}}
 */
export function createFindings(list, store, edit) {
  /** @type {string[]} */
  let lines = []; // of the text that the linter has seen
  let drawn = "";

  /** A fix is for a line as the linter saw it. @param {any} finding */
  const fix = ({ fix: found }) => edit((text) => (linesOf(text)[found.line - 1] === lines[found.line - 1] ? applyFix(text, found) : text));

  return {
    fix,
    draw(state, findings) {
      lines = linesOf(state.rules);
      const seen = JSON.stringify(findings);
      if (seen === drawn) return;
      drawn = seen;
      fill(list, findings.map((/** @type {any} */ finding) => h("li", { class: finding.level },
        h("strong", { class: "level" }, h("span", { "aria-hidden": "true" }, `${LEVELS[finding.level].sign} `), LEVELS[finding.level].word),
        finding.line > 0 && [" ", lineLink(store, finding.line, `line ${finding.line}`)],
        " ", h("span", { class: "message" }, finding.message),
        finding.fix && [" ", h("button", {
          type: "button", class: "small", "aria-label": finding.fix.replacement === null ? `${finding.fix.title}: ${lines[finding.fix.line - 1]}` : null,
          onclick: () => {
            fix(finding);
            store.set({ goto: { line: Math.min(finding.fix.line, linesOf(store.get().rules).length) } }); // the button goes away
          },
        }, finding.fix.title)])));
    },
  };
}

/**
 * @param {{list: HTMLElement, button: HTMLElement, errorBox: HTMLElement}} parts
 *   an <ul>; adds the result that is shown as a test case; why the test cases could not be run
 * @param {Store} store
 * @param {Edit} edit
 * @param {() => Language} language
 * @param {(text: string) => void} say
 * @returns {{draw: (state: State) => void, setFresh: (what: "result"|"tests", fresh: boolean) => void}}
 *   fresh: the result, or the outcome of the test cases, is that of these rules
 */
export function createExamples({ list, button, errorBox }, store, edit, language, say) {
  let drawn = "";
  let error = /** @type {any} */ (null);
  const fresh = { result: false, tests: false };
  const resultNow = (/** @type {State} */ state) => (fresh.result && state.model?.takes_text ? resultOf(state) : null);

  button.addEventListener("click", () => {
    const state = store.get(), now = resultNow(state);
    if (!now) return;
    const passed = new Map((state.tests?.examples ?? []).map((/** @type {any} */ test) => [test.line, test.passed]));
    const kept = linesOfExample(state.rules, now.text).find((line) => !fresh.tests || !passed.get(line));
    if (kept === undefined) return edit((text) => addExample(text, now.text, now.spans, language()));
    store.set({ goto: { line: kept } });
    say(`Line ${kept} already has a test case for this text, which ${fresh.tests && passed.has(kept) ? "fails" : "was not run"}.`);
    return undefined;
  });

  return {
    setFresh(what, now) {
      fresh[what] = now;
    },
    draw(state) {
      button.setAttribute("aria-disabled", String(!resultNow(state)));
      button.title = state.model && !state.model.takes_text ? "Test cases need a model that reads text" : "";
      if (error !== state.testsError) fill(errorBox, state.testsError ? problem(state.testsError, store) : null);
      error = state.testsError;
      const tests = new Map((state.tests?.examples ?? []).map((/** @type {any} */ test) => [`${test.line} ${test.text}`, test]));
      const examples = linesOf(state.rules).map((line, k) => ({ line, number: k + 1, read: readLine(line) }))
        .filter(({ read }) => read.kind === "example" && !read.off)
        .map(({ line, number }) => ({ number, text: textOfExample(line) ?? "", test: tests.get(`${number} ${textOfExample(line)}`) ?? null }));
      const seen = JSON.stringify(examples);
      if (seen === drawn) return;
      drawn = seen;
      fill(list, examples.map(({ number, text, test }) => h("li", { class: test ? (test.passed ? "passed" : "failed") : "waiting" },
        h("strong", { class: "level" }, test ? (test.passed ? "✔ passed" : "✖ failed") : "not run"),
        " ", lineLink(store, number, `line ${number}`), " ", h("q", { dir: "auto" }, text),
        test && !test.passed && h("p", { class: "got" }, test.message, h("br", {}), "Got: ", gotOf(test, state.model, language())))));
    },
  };
}

/** @param {any} test @param {any} model @param {Language} language @returns {import("./dom.js").Child} the segments that were found */
function gotOf(test, model, language) {
  const wrong = new Set(test.wrong);
  const spans = segments(model, test.labels).filter(({ outside }) => !outside);
  if (!spans.length) return "no segments";
  return spans.map(({ start, end, type }, k) => {
    const words = test.tokens.slice(start, end).map((/** @type {string} */ token, /** @type {number} */ t) =>
      [t ? " " : "", wrong.has(start + t) ? h("mark", {}, token) : token]);
    return [k ? ", " : "", h("b", {}, shownName(type, language)), " “", h("bdi", {}, words), "”"];
  });
}

/**
 * The text and the segments with rules, as a test case has them.
 *
 * @param {State} state
 * @returns {{text: string, spans: {label: string, text: string}[]}|null}
 */
function resultOf(state) {
  const { explain, explainError } = state;
  return explainError ? null : testCase(state, explain?.best?.labels);
}

/**
 * The text that is shown and segments of it, as a test case has them.
 *
 * @param {State} state
 * @param {string[]|undefined} labels
 * @param {(segment: import("./labels.js").Segment) => boolean} [wanted] which segments; by default all
 * @returns {{text: string, spans: {label: string, text: string}[]}|null}
 */
export function testCase(state, labels, wanted = () => true) {
  const { explain, model } = state;
  if (!labels?.length) return null;
  const { tokens, offsets } = explain;
  const { text } = shown(state);
  const characters = Array.from(text); // offsets count code points
  const cut = (/** @type {number} */ start, /** @type {number} */ end) => characters.slice(offsets[start][0], offsets[end - 1][1]).join("");
  const exact = offsets && tokens.every((/** @type {string} */ token, /** @type {number} */ t) => cut(t, t + 1) === token);
  const spans = segments(model, labels).filter((segment) => !segment.outside && wanted(segment))
    .map(({ start, end, type }) => ({ label: type, text: exact ? cut(start, end) : tokens.slice(start, end).join(" ") }));
  return { text: exact ? text : tokens.join(" "), spans };
}
