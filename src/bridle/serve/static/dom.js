/**
 * Elements without innerHTML: whatever comes from users or from the server stays text.
 *
 * @typedef {Node | string | number | null | undefined | false | any[]} Child
 *   Strings and numbers become text nodes; null, undefined and false are left out; arrays are flattened.
 * @typedef {Object<string, any>} Props
 *   `class`: string; `dataset`: object; `style`: object of CSS properties (also custom ones, `--x`);
 *   `onclick` and the like: listeners; true: an attribute without a value; null, undefined, false: no attribute;
 *   `value`, `checked`, `disabled`, `hidden`, `open`, `selected`: properties; everything else: an attribute.
 */

const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "open", "selected"]);

/**
 * Make an element: `h("li", {class: "effect", onclick: go}, h("b", {}, name), " costs ", 3)`.
 *
 * @param {string} tag
 * @param {Props | null} [props]
 * @param {...Child} children
 * @returns {any} the element
 */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  element.append(...nodes(children));
  for (const [name, value] of Object.entries(props ?? {})) setProp(element, name, value);
  return element;
}

/** @param {any} element @param {string} name @param {any} value */
function setProp(element, name, value) {
  if (name.startsWith("on") && typeof value === "function") {
    element.addEventListener(name.slice(2), value);
  } else if (name === "dataset") {
    Object.assign(element.dataset, value);
  } else if (name === "style") {
    for (const [key, set] of Object.entries(value)) element.style.setProperty(dashed(key), String(set));
  } else if (PROPERTIES.has(name)) {
    if (value !== null && value !== undefined) element[name] = value;
  } else if (value !== null && value !== undefined && value !== false) {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** @param {string} key fontSize or font-size or --custom @returns {string} */
function dashed(key) {
  return key.startsWith("--") ? key : key.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`);
}

/**
 * Children as nodes.
 *
 * @param {Child[]} children
 * @returns {Node[]}
 */
export function nodes(children) {
  return children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false)
    .map((c) => (c instanceof Node ? c : document.createTextNode(String(c))));
}

/**
 * Put these children in place of those that an element has.
 *
 * @template {Element} T
 * @param {T} element
 * @param {...Child} children
 * @returns {T}
 */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

/**
 * The element with this id. It is an error if there is none: index.html has all of them.
 *
 * @param {string} id
 * @returns {any}
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no element with the id "${id}".`);
  return element;
}

/**
 * A function that runs `act` once it has not been called for `milliseconds`, or was first called `most` ago.
 *
 * @template {any[]} A
 * @param {(...args: A) => void} act
 * @param {number} milliseconds
 * @param {number} [most] milliseconds that `act` waits at most while calls go on, as when a slider is dragged
 * @returns {(...args: A) => void}
 */
export function debounce(act, milliseconds, most = Infinity) {
  /** @type {any} */
  let timer = 0, begun = 0;
  return (...args) => {
    if (timer) clearTimeout(timer);
    else begun = performance.now();
    timer = setTimeout(() => {
      timer = 0;
      act(...args);
    }, Math.max(0, Math.min(milliseconds, begun + most - performance.now())));
  };
}

/**
 * Is the keyboard in a field where letters are typed?
 *
 * @param {EventTarget | null} target
 * @returns {boolean}
 */
export function isTyping(target) {
  return target instanceof HTMLElement && target.matches("textarea, select, input:not([type=checkbox], [type=range])");
}
