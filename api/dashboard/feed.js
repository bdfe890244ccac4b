// SPDX-License-Identifier: Apache-2.0
// The latest events, in sentences.

import { address, h } from "./dom.js";
import { clock, percent } from "./format.js";

const KEPT = 60;
const kept = [];
let list = null;

const SENTENCES = {
  "flow-switched": (e) => [link(e), ` switched from ${e.before ?? "no arm"} to ${e.after}: ${e.reason}.`],
  "flow-advised": (e) => [link(e), ` should run ${e.after} instead of ${e.before ?? "no arm"}: ${e.reason}.`],
  "flow-fallback": (e) => [link(e), ` fell back to ${e.after}: ${e.reason}.`],
  "flow-opened": (e) => [link(e), " opened."],
  "flow-closed": (e) => [address(e.remote), " closed."],
  "flows-lost": () => ["The kernel dropped events; the daemon looked at all flows anew."],
  "mode-changed": (e) => [`Mode is ${e.after} now, was ${e.before}.`],
  "configuration-changed": (e) => [`${e.what}.`],
  "rollout-changed": (e) => [`Rollout at ${percent(e.share)} of the traffic: ${e.reason}.`],
  "events-left-out": (e) => [`${e.count} more events of the kind ${e.of}.`],
  "events-missed": () => ["Some events are missing: the daemon may have restarted."],
};

/** Note an event, once however often it is told, and show it where the list is on the page. */
export function heard(kind, data, id) {
  const key = `${kind} ${id}`;
  if (kept.some((item) => item.dataset.key === key)) return;
  const at = data.time ?? Date.now() / 1000;
  const stamp = new Date(at * 1000).toISOString();
  const item = h("li", { "data-key": key }, h("time", { datetime: stamp }, clock(at)), h("span", {}, ...SENTENCES[kind](data)));
  kept.unshift(item);
  kept.splice(KEPT);
  show();
}

/** The card of the latest events. */
export function feed() {
  list = h("ol", { class: "feed", tabindex: "0", "aria-label": "Latest events" });
  show();
  return h("section", { class: "card" }, h("h2", {}, "Events"), list);
}

function show() {
  list?.replaceChildren(...(kept.length ? kept : [h("li", { class: "empty" }, "Nothing has happened since the daemon started.")]));
}

function link(event) {
  return h("a", { href: `#/flows/${event.cookie}` }, address(event.remote));
}
