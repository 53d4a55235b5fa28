/** Work on labelled data that takes a while: tuning one rule or all of them, and finding more. It can be stopped. */

import { api } from "./api.js";
import { effectOf } from "./correct.js";
import { fill, h } from "./dom.js";
import { addRule, setPenalty, toggle } from "./rules_text.js";
import { readLine, linesOf } from "./language.js";
import { counted, lineLink, percent, problem } from "./words.js";

const PAUSE = 250; // milliseconds between questions how far it is

/**
 * @param {HTMLElement} root
 * @param {import("./asking.js").Desk} desk
 * @param {() => string} rules   those that requests send
 * @param {import("./rule_list.js").Edit} edit
 */
export function createTuning(root, { store, say, worth }, rules, edit) {
  const tune = h("button", { type: "button", id: "tune-all", title: "Choose for each rule whether it is hard, soft at which penalty, or off" }, "Tune all rules");
  const learn = h("button", { type: "button", id: "learn", title: "Find rules in the loaded data that make the labels better" }, "Find more rules");
  const box = h("div", { id: "job", "aria-live": "polite" });
  const row = h("div", { class: "row" }, tune, learn);
  const seen = h("p", { class: "dim", id: "seen", hidden: true },
    "The model was trained on this data, so rules seem to help less here than on other texts. Tuning and learning take the scores of models that have not seen it.");
  root.append(row, seen, box);
  let running = false, current = ""; // the key of the job
  window.addEventListener("pagehide", () => { if (current) api.leaveJob(current); });

  /** @param {"tune"|"learn"} kind @param {number} [line] */
  async function start(kind, line) {
    const { data } = store.get();
    if (!data || running) return;
    running = true;
    let stop = false;
    const message = h("span", {}, "Beginning …"), sent = rules();
    fill(box, h("div", { class: "card" }, h("progress", {}), " ", message, " ",
      h("button", { type: "button", id: "stop-job", onclick: () => { stop = true; } }, "Stop")));
    try {
      let job = await api.startJob({ kind, data: data.id, rules: sent, line });
      current = job.job;
      while (job.state === "running") {
        await new Promise((done) => { setTimeout(done, PAUSE); });
        job = await api.askJob(job.job, stop);
        fill(message, `${job.message} (${Math.round(job.seconds)} s)`);
      }
      if (job.state === "stopped") fill(box, h("p", { class: "dim" }, "Stopped; nothing was changed."));
      else if (job.state === "failed") fill(box, problem(job.error, store));
      else if (job.result.type === "tune") drawTuned(job.result, sent);
      else drawLearned(job.result);
    } catch (error) {
      const failure = worth(error);
      fill(box, failure ? problem(failure, store) : null);
    } finally {
      running = false;
      current = "";
    }
  }

  /** @param {any} result @param {string} sent the rules that were tuned */
  function drawTuned(result, sent) {
    const now = linesOf(sent);
    const rows = result.rules.filter((/** @type {any} */ each) => {
      const { penalty } = readLine(now[each.line - 1]);
      return each.choice !== (penalty === null ? "hard" : "soft") || (penalty !== null && Math.abs(penalty - penaltyOf(each.rule)) > 1e-9);
    });
    const use = () => {
      let gone = 0;
      edit((text) => rows.reduce((/** @type {string} */ tuned, /** @type {any} */ each) => {
        const line = lineNow(tuned, now, each.line);
        if (!line) gone += 1;
        return each.choice === "off" && line ? toggle(tuned, line) : setPenalty(tuned, line, each.choice === "hard" ? null : penaltyOf(each.rule));
      }, text));
      const left = gone ? ` ${counted(gone, "rule that you have changed stays as it is.", "rules that you have changed stay as they are.")}` : "";
      fill(box, h("p", { class: "dim" }, `${gone < rows.length ? "The rules are as tuned now. Undo brings the former ones back." : ""}${left}`));
    };
    const worthIt = rows.length > 0 && result.best === "tuned";
    fill(box, h("div", { class: "card" }, close(), h("p", {}, h("strong", {}, verdictOf(result))), notes(result),
      rows.length ? h("ul", { class: "suggested" }, rows.map((/** @type {any} */ each) => h("li", {},
        lineLink(store, each.line, each.written), h("span", { class: "effect" }, "→ ", h("strong", {}, each.choice === "off" ? "off" : each.choice === "hard" ? "hard" : `penalty ${penaltyOf(each.rule)}`),
          each.better === null ? null : h("span", { class: "dim" }, `; ${counted(each.better, "sequence")} better, ${each.worse} worse`))))) : null,
      rows.length ? h("button", { type: "button", class: "accept", onclick: use }, worthIt ? "Use these" : "Use these nevertheless") : null));
    say(verdictOf(result));
  }

  /** @param {any} result */
  function drawLearned(result) {
    const boxes = result.rules.map((/** @type {any} */ each) => h("input", { type: "checkbox", checked: Boolean(each.effect.gain?.low > 0), "aria-label": each.rule }));
    const head = boxes.some((/** @type {any} */ one) => one.checked) ? "Rules that would make the labels better, each in addition to yours:"
      : boxes.length ? "Rules that may help a little, each in addition to yours. None is sure to, so choose yourself:" : "No rule was found that adds something to yours.";
    const use = () => {
      const accepted = result.rules.filter((/** @type {any} */ _, /** @type {number} */ k) => boxes[k].checked);
      edit((text) => accepted.reduce((/** @type {string} */ longer, /** @type {any} */ each) => addRule(longer, `${each.rule}  # learned: ${each.evidence}`), text));
      if (accepted.length) fill(box, h("p", { class: "dim" }, `${counted(accepted.length, "rule was", "rules were")} added. Undo takes them out.`));
      else say("Choose a rule first.");
    };
    fill(box, h("div", { class: "card" }, close(),
      h("p", {}, h("strong", {}, head)), notes(result),
      h("ul", { class: "suggested" }, result.rules.map((/** @type {any} */ each, /** @type {number} */ k) => h("li", {},
        h("label", { class: "rule" }, boxes[k], " ", each.rule), h("span", { class: "dim why" }, each.evidence.replace(/^held in (.*);.*/, "gold obeys it in $1")), h("span", { class: "effect" }, effectOf(each.effect))))),
      result.rules.length ? h("button", { type: "button", class: "accept", onclick: use }, "Add the chosen rules") : null));
    say(`${counted(result.rules.length, "rule was", "rules were")} found.`);
  }

  const close = () => h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => fill(box) }, "×");

  /** @param {any} result @returns {any} */
  const notes = (result) => (result.notes.length ? h("ul", { class: "dim" }, result.notes.map((/** @type {string} */ note) => h("li", {}, note))) : null);

  tune.addEventListener("click", () => start("tune"));
  learn.addEventListener("click", () => start("learn"));
  store.subscribe((state, changed) => {
    if (changed.has("curves") || changed.has("data")) seen.hidden = !state.data || !state.curves?.seen;
    if (changed.has("data") || changed.has("model")) row.hidden = !state.data?.has_gold || !state.model?.workspace;
  });
  row.hidden = true;
  return { tuneLine: (/** @type {number} */ line) => start("tune", line) };
}

/**
 * @param {string} text of the rules now
 * @param {string[]} before lines of an older text
 * @param {number} line of the older text
 * @returns {number} the line with the same rule, 0 if there is none
 */
function lineNow(text, before, line) {
  const wanted = readLine(before[line - 1]).sentence;
  const isSame = (/** @type {string} */ one) => { const { kind, off, sentence } = readLine(one); return kind === "rule" && !off && sentence === wanted; };
  const lines = linesOf(text);
  return isSame(lines[line - 1] ?? "") ? line : lines.findIndex(isSame) + 1;
}

/** @param {any} result @returns {string} */
function verdictOf(result) {
  const text = result.verdict;
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

/** @param {string} rule a soft one @returns {number} */
function penaltyOf(rule) {
  return readLine(rule).penalty ?? NaN;
}

/**
 * The curve of F1 against the penalty of a rule.
 *
 * @param {any} curve of POST /curves
 * @param {number} most the largest penalty of the slider, to which the curve is drawn
 * @param {number|null} now the penalty of the rule
 * @returns {any}
 */
export function drawCurve(curve, most, now) {
  const points = curve.points.filter((/** @type {any} */ point) => point.penalty !== null && point.penalty <= most);
  const values = points.map((/** @type {any} */ point) => point.f1);
  const [least, greatest] = [Math.min(...values), Math.max(...values)], span = Math.max(greatest - least, 0.002);
  const place = (/** @type {any} */ point) => [100 * (point.penalty / most), 22 - 20 * ((point.f1 - least) / span)];
  const NS = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(NS, "svg");
  const add = (/** @type {string} */ name, /** @type {Object<string, any>} */ attributes) => {
    const element = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
    svg.append(element);
  };
  svg.setAttribute("viewBox", "0 0 100 24");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "curve");
  svg.setAttribute("role", "img");
  const best = curve.best === null ? "hard" : curve.best === 0 ? "off" : `penalty ${curve.best}`;
  const said = `F1 from ${percent(least)} to ${percent(greatest)}, highest: ${best}`;
  svg.setAttribute("aria-label", said);
  const title = document.createElementNS(NS, "title");
  title.textContent = said;
  svg.append(title);
  add("polyline", { points: points.map((/** @type {any} */ point) => place(point).map((v) => v.toFixed(1)).join(",")).join(" "), class: "line" });
  if (now !== null && now <= most) add("line", { x1: 100 * (now / most), x2: 100 * (now / most), y1: 0, y2: 24, class: "now" });
  return svg;
}
