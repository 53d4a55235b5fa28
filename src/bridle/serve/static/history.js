/**
 * Undo and redo for a text field whose text is also changed by buttons and sliders. (The browser forgets its own
 * history of a field when a program changes the text.)
 *
 * @typedef {{at: number, removed: string, added: string, group: string, time: number}} Step
 */

const MOST = 500; // steps
const PAUSE = 1000; // milliseconds that end a run of typing

/**
 * What differs between two texts, as one replacement.
 *
 * @param {string} before
 * @param {string} after
 * @returns {{at: number, removed: string, added: string}}
 */
export function difference(before, after) {
  const least = Math.min(before.length, after.length);
  let at = 0;
  while (at < least && before[at] === after[at]) at++;
  let end = 0;
  while (end < least - at && before.at(-1 - end) === after.at(-1 - end)) end++;
  return { at, removed: before.slice(at, before.length - end), added: after.slice(at, after.length - end) };
}

/**
 * @param {string} start  the text at the beginning
 * @returns {{
 *   record: (text: string, group?: string) => void, undo: () => {text: string, at: number}|null,
 *   redo: () => {text: string, at: number}|null, reset: (text: string) => void}}
 *   group: changes of the same group that follow each other quickly are undone together; "" never
 */
export function createHistory(start) {
  /** @type {Step[]} */
  const done = [];
  /** @type {Step[]} */
  const undone = [];
  let text = start;
  let ended = true; // the last step takes no more changes

  return {
    reset(now) {
      text = now;
      done.length = undone.length = 0;
      ended = true;
    },
    record(now, group = "") {
      if (now === text) return;
      const change = difference(text, now);
      const step = { ...change, group, time: Date.now() };
      const last = done.at(-1);
      const before = last && text.slice(0, last.at) + last.removed + text.slice(last.at + last.added.length);
      text = now;
      undone.length = 0;
      const joins = !ended && group && last?.group === group && step.time - last.time < PAUSE;
      ended = false;
      if (joins && before !== undefined) {
        done[done.length - 1] = { ...difference(before, now), group, time: step.time };
        return;
      }
      done.push(step);
      if (done.length > MOST) done.shift();
    },
    undo() {
      const step = done.pop();
      if (!step) return null;
      undone.push(step);
      ended = true;
      text = text.slice(0, step.at) + step.removed + text.slice(step.at + step.added.length);
      return { text, at: step.at + step.removed.length };
    },
    redo() {
      const step = undone.pop();
      if (!step) return null;
      done.push(step);
      ended = true;
      text = text.slice(0, step.at) + step.added + text.slice(step.at + step.removed.length);
      return { text, at: step.at + step.added.length };
    },
  };
}
