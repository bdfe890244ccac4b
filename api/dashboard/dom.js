// SPDX-License-Identifier: Apache-2.0
// Elements without markup: text from the network never becomes HTML.

/** An element: `h("td", {class: "number"}, "12")`. Attributes that start with "on" are listeners. */
export function h(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Change an element's text only where it differs, so that nobody's selection or screen reader is disturbed. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Replace an element's children only where `key` says that they changed. */
export function replace(element, key, make) {
  if (element.dataset.key === key) return;
  element.dataset.key = key;
  element.replaceChildren(...make());
}

/** Let `--arm` be the colour of an arm, for the style sheet. */
export function paint(element, arm) {
  element.style.setProperty("--arm", `var(--${tokenOf(arm)}, var(--arm-other))`);
  return element;
}

/** The colour of an arm as the palette has it now, light or dark. */
export function colour(arm) {
  return token(tokenOf(arm)) || token("arm-other");
}

/** A colour of the style sheet by its name. */
export function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** An address that breaks between its groups, if it must, and nowhere else. */
export function address(text) {
  const made = h("span", { class: "address" });
  text.split(/(?<=:)(?!:)|(?=:[0-9]+$)/).forEach((part, at) => made.append(...(at ? [h("wbr"), part] : [part])));
  return made;
}

/** An arm's name beside its colour. */
export function chip(arm) {
  return paint(h("span", { class: "chip" }, arm ?? "none"), arm);
}

/** The palette's name for an arm. The kernel may name one in ways that no style sheet takes. */
function tokenOf(arm) {
  return /^[a-z0-9_-]+$/.test(arm ?? "") ? `arm-${arm}` : "arm-other";
}
