// SPDX-License-Identifier: Apache-2.0
// The page of all flows: figures, goodput and shares by arm, the flows in any order, events.

import { spark, stackedChart } from "./charts.js";
import { address, chip, h, paint, replace, say } from "./dom.js";
import { feed } from "./feed.js";
import { duration, milliseconds, percent, rate, whole } from "./format.js";
import { get, repeat } from "./net.js";
import { Tiles } from "./tiles.js";

const ROWS = 25;
const LOOK_MS = 1000;
const SPARK_POINTS = 60;

/** Show the page in `main`; returns a function that ends it. */
export function flowsPage(main, state) {
  const tiles = new Tiles(["Flows", "Goodput", "Median RTT", "Switches", "Pool", "Step, p99"]);
  const chart = stackedChart(matchMedia("(max-width: 640px)").matches ? 240 : 340, rate);
  const legend = h("ul", { class: "legend" });
  const shares = h("ul", { class: "bars" });
  const arm = h("select", {}, h("option", { value: "" }, "all arms"));
  const prefix = h("input", { placeholder: "198.51.100.0/24", size: "18", autocomplete: "off", spellcheck: "false" });
  const problem = h("p", { class: "small", role: "status" });
  const table = new Table(() => look());
  main.replaceChildren(
    h("h1", { class: "skip" }, "Flows"),
    tiles.place,
    h("div", { class: "two" },
      h("section", { class: "card" }, h("h2", {}, "Goodput by arm ", h("small", {}, "Mbit/s, last 5 minutes")), chart.place, legend),
      h("div", { class: "stack" }, h("section", { class: "card" }, h("h2", {}, "Share of flows by arm"), shares), feed())),
    h("section", { class: "card" },
      h("div", { class: "filters" }, h("h2", {}, "Flows"), table.sorts,
        h("label", {}, "Arm", arm), h("label", {}, "Remote network", prefix)),
      problem, table.place));

  async function look() {
    const query = new URLSearchParams({ limit: ROWS, history: SPARK_POINTS, ...table.query });
    if (arm.value) query.set("arm", arm.value);
    if (prefix.value.trim()) query.set("prefix", prefix.value.trim());
    try {
      const [totals, page] = await Promise.all([
        get("v1/history"), get(`v1/flows?${query}`).catch((refusal) => {
          if (refusal.status === 422) return refusal;
          throw refusal;
        }),
      ]);
      state.answered();
      showTotals(totals);
      const refused = page instanceof Error;
      say(problem, refused ? page.message : "");
      if (!refused && table.show(page)) await look();
    } catch (error) {
      state.failed(error);
    }
  }

  function showStatus(status) {
    const teams = status.teams ? `${whole(status.teams)} teams of ${status.k}` : status.pool.join(", ");
    tiles.show("Flows", whole(status.flows), status.busy ? "data moves" : "idle");
    tiles.show("Median RTT", milliseconds(status.median_rtt_ms), "of all flows");
    tiles.show("Switches", whole(status.changes), status.mode === "active" ? "decided so far" : "advised so far");
    tiles.show("Pool", `${status.pool.length} arms`, teams);
    const over = status.step_p99_ms > status.step_ms;
    tiles.show("Step, p99", milliseconds(status.step_p99_ms), over ? `over its ${status.step_ms} ms` : `of ${status.step_ms} ms`, over);
  }

  function showTotals(totals) {
    const arms = Object.keys(totals.flows).sort();
    const latest = (lists, of) => lists[of].at(-1) ?? 0;
    const goodput = arms.reduce((sum, of) => sum + latest(totals.goodput_mbps, of), 0);
    tiles.show("Goodput", rate(goodput), "of all flows");
    chart.show(totals.time, totals.goodput_mbps, `Goodput by arm over the last five minutes, now ${rate(goodput)}`);
    replace(legend, arms.join(), () => arms.map((of) => h("li", {}, chip(of))));
    replace(arm, arms.join(), () => {
      const chosen = arm.value;
      const named = [...new Set([...arms, ...(chosen ? [chosen] : [])])];
      return [h("option", { value: "" }, "all arms"),
        ...named.map((of) => h("option", { value: of, selected: of === chosen }, of))];
    });
    const count = (of) => latest(totals.flows, of);
    const all = Math.max(arms.reduce((sum, of) => sum + count(of), 0), 1);
    const ranked = arms.filter(count).sort((one, other) => count(other) - count(one));
    const key = ranked.map((of) => `${of} ${count(of)}`).join();
    replace(shares, key, () => ranked.length ? ranked.map((of) => {
      const fill = paint(h("div", { class: "fill" }), of);
      fill.style.width = `${(count(of) / all) * 100}%`;
      return h("li", {}, chip(of),
        h("span", { class: "number" }, `${whole(count(of))} · ${percent(count(of) / all)}`),
        h("div", { class: "track", "aria-hidden": "true" }, fill));
    }) : [h("li", { class: "empty" }, "No flow runs under mutant.")]);
  }

  state.looksEvery(LOOK_MS);
  state.onStatus(showStatus);
  const stop = repeat(look, LOOK_MS);
  const first = () => table.turnTo(0);
  arm.addEventListener("change", first);
  prefix.addEventListener("change", first);
  return () => {
    stop();
    chart.close();
  };
}

/** A column: its title, the API's name of its order (null: there is none), and its style. */
const COLUMNS = [
  ["To", "remote", "to"], ["Arm", null, "arm"], ["Last minute", null, "past"], ["Goodput", "goodput", "number"],
  ["RTT", "rtt", "number rtt"], ["Lowest", "min_rtt", "number wide"], ["Lost", "loss", "number wide"],
  ["Switches", "switches", "number wide"], ["Age", "age", "number wide"],
];
const FIRST_ORDER = "goodput";

/**
 * A page of the flows. The daemon sorts them, so that the first page has the first of all. `changed` is called once
 * another page or order is wanted. Rows stay the same elements as long as their flows are there, so that the focus
 * stays where it is.
 */
class Table {
  constructor(changed) {
    this.changed = changed;
    this.rows = new Map();
    [this.order, this.reverse, this.offset] = [FIRST_ORDER, false, 0];
    this.body = h("tbody", { role: "rowgroup" });
    this.empty = h("p", { class: "empty", hidden: true });
    this.heads = new Map(COLUMNS.map(([text, order, style]) => [text, h("th", { scope: "col", role: "columnheader", class: style },
      order ? h("button", { type: "button", class: "sort", onclick: () => this.sortBy(order) }, text) : text)]));
    const orders = COLUMNS.filter(([, order]) => order);
    // Where there are no heads, on a phone, this takes their place.
    this.choice = h("select", { onchange: () => this.sortBy(this.choice.value, false) },
      ...orders.map(([text, order]) => h("option", { value: order, selected: order === FIRST_ORDER }, text)));
    this.sorts = h("label", { class: "narrow" }, "Order", this.choice);
    this.range = h("span");
    this.before = h("button", { type: "button", onclick: () => this.turnTo(this.offset - ROWS) }, "← Before");
    this.after = h("button", { type: "button", onclick: () => this.turnTo(this.offset + ROWS) }, "Next →");
    this.pager = h("p", { class: "pager soft small", hidden: true }, this.range, h("span", { class: "push" }, this.before, " ", this.after));
    this.place = h("div", {}, h("div", { class: "scroll" }, h("table", { role: "table" },
      h("caption", { class: "skip" }, "Flows; a column's head sorts by it"),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ...this.heads.values())), this.body)), this.empty, this.pager);
    this.mark();
  }

  /** The part of the request that is this table's. */
  get query() {
    return { order: this.order, reverse: this.reverse, offset: this.offset };
  }

  sortBy(order, reverse = order === this.order && !this.reverse) {
    [this.order, this.reverse] = [order, reverse];
    this.mark();
    this.turnTo(0);
  }

  turnTo(offset) {
    this.offset = Math.max(offset, 0);
    this.changed();
  }

  mark() {
    this.choice.value = this.order;
    for (const [text, order] of COLUMNS) {
      const here = order !== null && order === this.order;
      const falls = (order !== "remote") !== this.reverse;
      if (here) this.heads.get(text).setAttribute("aria-sort", falls ? "descending" : "ascending");
      else this.heads.get(text).removeAttribute("aria-sort");
    }
  }

  /** Show a page. Returns whether another one must be asked for, because so many flows have ended. */
  show(page) {
    if (page.offset !== this.offset) return false;
    if (!page.flows.length && this.offset) {
      this.offset = Math.max(Math.ceil(page.total / ROWS) - 1, 0) * ROWS;
      return true;
    }
    const seen = new Set(page.flows.map((flow) => flow.cookie));
    for (const [cookie, row] of this.rows) {
      if (!seen.has(cookie)) {
        row.place.remove();
        this.rows.delete(cookie);
      }
    }
    page.flows.forEach((flow, at) => {
      if (!this.rows.has(flow.cookie)) this.rows.set(flow.cookie, new Row(flow));
      const row = this.rows.get(flow.cookie);
      if (this.body.children[at] !== row.place) this.body.insertBefore(row.place, this.body.children[at] ?? null);
      row.show(flow);
    });
    this.empty.hidden = page.flows.length > 0;
    say(this.empty, "No flow matches. A connection is here once it uses the congestion control mutant.");
    this.pager.hidden = page.total <= ROWS;
    const last = this.offset + page.flows.length;
    say(this.range, `${whole(this.offset + 1)} to ${whole(last)} of ${whole(page.total)}`);
    this.before.disabled = this.offset === 0;
    this.after.disabled = last >= page.total;
    return false;
  }
}

class Row {
  constructor(flow) {
    const cells = COLUMNS.map(([text, , style]) => h("td", { role: "cell", class: style, "data-of": text }));
    [this.to, this.arm, this.past, this.goodput, this.rtt, this.least, this.lost, this.switches, this.age] = cells;
    this.to.append(h("a", { href: `#/flows/${flow.cookie}` }, address(flow.remote)));
    this.spark = this.past.appendChild(h("canvas", { class: "spark", "aria-hidden": "true" }));
    this.place = h("tr", { role: "row" }, ...cells);
  }

  show(flow) {
    replace(this.arm, `${flow.arm}${flow.pinned}${flow.fallen_back}`, () => [chip(flow.arm),
      flow.pinned ? h("span", { class: "tag" }, "pinned") : null,
      flow.fallen_back ? h("span", { class: "tag warn" }, "fallback") : null].filter(Boolean).flatMap((e) => [e, " "]));
    say(this.goodput, rate(flow.goodput_mbps));
    say(this.rtt, milliseconds(flow.srtt_ms));
    say(this.least, milliseconds(flow.min_rtt_ms));
    say(this.lost, percent(flow.lost_pkts / Math.max(flow.lost_pkts + flow.delivered_pkts, 1)));
    say(this.switches, whole(flow.switches));
    say(this.age, duration(flow.age_s));
    spark(this.spark, flow.history);
    const past = flow.history?.goodput_mbps ?? [];
    this.spark.title = past.length
      ? `Goodput over the last minute: ${rate(Math.min(...past))} to ${rate(Math.max(...past))}` : "No history is kept of this flow";
  }
}
