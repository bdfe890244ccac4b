// SPDX-License-Identifier: Apache-2.0
// The most important figures of a page, one beside the other.

import { h, say } from "./dom.js";

/** Tiles of these names; `place` is their element. */
export class Tiles {
  constructor(names) {
    this.values = new Map(names.map((name) => [name, [document.createTextNode("–"), h("small")]]));
    this.place = h("dl", { class: "tiles" }, ...[...this.values].map(([name, [value, note]]) =>
      h("div", { class: "card tile" }, h("dt", {}, name), h("dd", {}, value, " ", note))));
  }

  show(name, text, small, warn = false) {
    const [value, note] = this.values.get(name);
    say(value, text);
    say(note, small);
    note.title = small;
    value.parentElement.classList.toggle("warn", warn);
  }
}
