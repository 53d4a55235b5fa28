/** Files: rules, models and data are opened by a button or dropped on the page; rules are saved back to their file. */

import { api } from "./api.js";
import { byId, fill, h } from "./dom.js";

/**
 * @param {import("./asking.js").Desk} desk
 * @param {{loadFile: (file: File) => Promise<void>, loadAgain: () => Promise<void>, tell: (text: string) => void}} loading
 * @param {import("./rule_list.js").Edit} edit
 */
export function createFiles({ store, say, busy, worth, showError }, loading, edit) {
  /** @param {File} file */
  async function open(file) {
    if (file.name.endsWith(".rules")) {
      const text = await file.text();
      edit(() => text);
      loading.tell(`Opened the rules of ${file.name}. Undo brings the former ones back.`);
    } else if (file.name.endsWith(".bridle")) {
      await openModel(file);
    } else {
      await loading.loadFile(file);
    }
  }

  /** @param {File} file */
  async function openModel(file) {
    say(`Opening the model ${file.name} …`);
    try {
      const model = await busy(api.openModel(file.name, base64(new Uint8Array(await file.arrayBuffer()))));
      showError(null);
      const { data: kept, model: former, rules, file: edited } = store.get();
      store.set({ model, data: null, index: -1, evaluation: null, explain: null, baseline: null });
      if (!edited && rules === former.rules) edit(() => model.rules); // those of the former model, which the user has not edited
      if (kept && !kept.sample) await loading.loadAgain();
      say(`The model is now ${model.name}.`);
    } catch (error) {
      const failure = worth(error);
      if (failure) showError(failure);
    }
  }

  // ---- rules that have a file ----

  let saving = false;
  /** @param {boolean} [overwrite] whatever another program has written */
  async function save(overwrite = false) {
    const { file, rules } = store.get();
    if (!file || saving) return;
    saving = true;
    try {
      store.set({ file: await busy(api.saveRules(rules, file.fingerprint, overwrite)) });
      showError(null);
      say(`Saved ${file.name}.`);
    } catch (error) {
      const failure = worth(error);
      if (failure?.code === "changed-outside") tellChanged();
      else if (failure) showError(failure);
    } finally {
      saving = false;
    }
  }

  /** @param {string} text @param {string} more @param {[string, () => any][]} actions */
  function warn(text, more, ...actions) {
    fill(byId("page-error"), h("div", { class: "problem warning", role: "alert" }, h("p", {}, h("strong", {}, text), more),
      h("div", { class: "row" }, actions.map(([name, onclick]) => h("button", { type: "button", onclick }, name)))));
  }

  function tellChanged() {
    warn(`Another program has changed ${store.get().file?.name}.`, "", ["Show what the file holds now", load], ["Save over it", () => save(true)]);
  }

  async function load() {
    const file = await api.rulesFile().catch(worth);
    if (!file?.fingerprint) return;
    store.set({ file });
    if (file.text !== null) edit(() => file.text);
    fill(byId("page-error"));
  }

  async function compare() {
    const known = saving ? null : store.get().file;
    const file = known && await api.rulesFile().catch(() => null);
    if (file && !saving && file.fingerprint !== store.get().file?.fingerprint && file.text !== store.get().rules) tellChanged();
  }

  byId("open").addEventListener("change", async (/** @type {any} */ event) => {
    const files = [...event.target.files];
    event.target.value = "";
    for (const file of files) await open(file);
  });
  byId("save").addEventListener("click", () => save());
  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "s" || !store.get().file) return;
    event.preventDefault();
    save();
  });
  window.addEventListener("focus", compare);
  document.addEventListener("dragover", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  for (const name of ["dragleave", "drop"]) document.addEventListener(name, () => document.body.classList.remove("dropping"));
  document.addEventListener("drop", async (event) => {
    if (!event.dataTransfer?.files.length) return;
    event.preventDefault();
    for (const file of event.dataTransfer.files) await open(file);
  });

  store.subscribe((state, changed) => {
    if (!["file", "rules"].some((key) => changed.has(key))) return;
    const { file, rules } = state, saved = file?.text === rules;
    byId("save").hidden = !file;
    if (!file) return;
    byId("save").setAttribute("aria-disabled", String(saved));
    byId("save").title = `Write the rules to ${file.name} (Ctrl+S)`;
    const text = `${file.name}${saved ? "" : " · not saved"}`;
    if (byId("file-state").textContent !== text) fill(byId("file-state"), text);
  });

  return {
    /** Offer rules that were not saved, after the file has changed. @param {string} text */
    offer: (text) => {
      const close = () => fill(byId("page-error"));
      warn(`${store.get().file?.name ?? "The rules"} changed while this page was closed.`, " You had changes that were not saved.",
        ["Bring mine back", () => { edit(() => text); close(); }], ["Forget mine", close]);
    },
    /** The file of the rules, as the server was started. @returns {Promise<void>} */
    begin: async () => {
      if (!store.get().model.rules_file) return;
      const file = await api.rulesFile().catch(worth);
      if (!file?.fingerprint) return;
      store.set({ file });
      if (file.text !== null && file.text !== store.get().rules) edit(() => file.text);
    },
  };
}

/** @param {Uint8Array} bytes @returns {string} */
function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}
