// SPDX-License-Identifier: Apache-2.0
// Tables in cards of their own, which scroll sideways where a screen is narrow.

import { h } from "./dom.js";

/** A card with a table. `head`: title and style of each column. `body`: its `tbody`. */
export function tableCard(title, head, body) {
  return h("section", { class: "card" }, h("h2", {}, title),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, h("table", {},
      h("thead", {}, h("tr", {}, ...head.map(([text, kind]) => h("th", { scope: "col", class: kind }, text)))), body)));
}

/**
 * A table whose rows change. A column has a title, a style, and a function that shows an item in a cell. Cells stay the
 * same elements, so that the focus and a selection stay where they are. `none` is told while there are no items.
 */
export class Listing {
  constructor(title, columns, none) {
    this.columns = columns;
    this.body = h("tbody");
    this.empty = h("p", { class: "soft" }, none);
    this.place = tableCard(title, columns, this.body);
    this.scroll = this.place.querySelector(".scroll");
    this.place.append(this.empty);
  }

  show(items) {
    this.scroll.hidden = items.length === 0;
    this.empty.hidden = items.length > 0;
    while (this.body.rows.length > items.length) this.body.lastElementChild.remove();
    items.forEach((item, at) => {
      const row = this.body.rows[at] ?? this.body.appendChild(
        h("tr", {}, ...this.columns.map(([, style]) => h("td", { class: style }))));
      this.columns.forEach(([, , draw], of) => draw(row.cells[of], item));
    });
  }
}
