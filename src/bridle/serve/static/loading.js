/** Data: the sample of the server, a file, or the lines of a text; sent to the server, and its answer put into the store. */

import { api, ApiError } from "./api.js";
import { sampleName } from "./text_pane.js";

/** @param {ArrayBuffer} bytes of a file @returns {{text: string, warnings: string[]}} */
function decoded(bytes) {
  try {
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(bytes), warnings: [] };
  } catch {
    return { text: new TextDecoder("windows-1252").decode(bytes), warnings: ["The file is not UTF-8; it was read as Windows-1252"] };
  }
}

/**
 * @param {import("./asking.js").Desk} desk
 * @param {(text: string) => void} tell says a warning together with the next summary
 */
export function createLoading({ store, say, busy, worth, showError }, tell) {
  /** @type {(() => Promise<any>)|null} */
  let last = null;
  /** @type {any} */
  let lastAbout = null;

  /** @param {() => Promise<any>} load @param {{name: string, sample: boolean, warnings?: string[]}} about @param {number} [index] the sequence that is shown */
  async function loadData(load, about, index = 0) {
    say("Loading the data …");
    try {
      const data = await busy(load());
      last = load;
      lastAbout = about;
      showError(null);
      const warnings = [...(about.warnings ?? []), ...(data.warnings ?? [])];
      store.set({
        data: { ...data, ...about, warnings }, index: data.sequences.length ? Math.min(index, data.sequences.length - 1) : -1,
        evaluation: null, evaluationError: null, curves: null, filter: "all", search: "", sort: "order",
      });
      tell(warnings[0] ?? "");
    } catch (error) {
      const failure = worth(error);
      if (!failure) return;
      const named = new ApiError({ ...failure, what: `“${about.name}”: ${failure.what}` }, failure.status);
      showError(named);
      say(named.what);
    }
  }

  return {
    /** Send the data again: the server keeps only what was used lately. @returns {Promise<any>|null} null: there is none */
    again: () => last && last(),
    /** Load the data again, for another model. */
    loadAgain: async () => { if (last) await loadData(last, lastAbout, Math.max(store.get().index, 0)); },
    /** @param {number} [index] the sequence that is shown */
    loadSample: (index) => loadData(api.sample, { name: sampleName(store.get().model), sample: true }, index ?? store.get().model.first),
    /** @param {File} file read here, in the browser */
    loadFile: async (file) => {
      const { text, warnings } = decoded(await file.arrayBuffer());
      await loadData(() => api.data(file.name, text), { name: file.name, sample: false, warnings });
    },
    /** @param {string} text whose lines become sequences */
    loadLines: (text) => loadData(() => api.data("lines.txt", text, "text"), { name: "Your lines", sample: false }),
  };
}
