// SPDX-License-Identifier: Apache-2.0
// The page of all flows: figures, goodput and shares by arm, the busiest flows, events.

import { spark, stackedChart } from "./charts.js";
import { chip, h, paint, say } from "./dom.js";
import { feed } from "./feed.js";
import { duration, milliseconds, percent, rate, whole } from "./format.js";
import { get, repeat } from "./net.js";

const ROWS = 25;
const LOOK_MS = 1000;

/** Show the page in `main`; returns a function that ends it. */
export function flowsPage(main, state) {
  const tiles = new Tiles(["Flows", "Goodput", "Median RTT", "Switches", "Pool", "Step, p99"]);
  const chart = stackedChart(290);
  const legend = h("ul", { class: "legend" });
  const shares = h("ul", { class: "bars" });
  const table = new Table();
  const arm = h("select", {}, h("option", { value: "" }, "all arms"));
  const prefix = h("input", { placeholder: "198.51.100.0/24", size: "18", autocomplete: "off", spellcheck: "false" });
  const problem = h("p", { class: "small", role: "status" });
  main.replaceChildren(
    h("h1", { class: "skip" }, "Flows"),
    tiles.place,
    h("div", { class: "two" },
      h("section", { class: "card" }, h("h2", {}, "Goodput by arm, Mbit/s"), chart.place, legend),
      h("div", { class: "stack" }, h("section", { class: "card" }, h("h2", {}, "Share of flows by arm"), shares), feed())),
    h("section", { class: "card" },
      h("div", { class: "filters" }, h("h2", {}, "Busiest flows"),
        h("label", {}, "Arm", arm), h("label", {}, "Remote network", prefix)),
      problem, table.place));

  async function look() {
    const query = new URLSearchParams({ limit: ROWS, order: "goodput", history: 60 });
    if (arm.value) query.set("arm", arm.value);
    if (prefix.value.trim()) query.set("prefix", prefix.value.trim());
    try {
      const [totals, status, page] = await Promise.all([
        get("v1/history"), get("v1/status"), get(`v1/flows?${query}`).catch((refusal) => refusal),
      ]);
      state.answered(status);
      showTotals(totals, status);
      const refused = page instanceof Error;
      say(problem, refused ? page.message : "");
      if (!refused) table.show(page);
    } catch (error) {
      state.failed(error);
    }
  }

  function showTotals(totals, status) {
    const arms = Object.keys(totals.flows).sort();
    const latest = (lists, of) => lists[of].at(-1) ?? 0;
    const goodput = arms.reduce((sum, of) => sum + latest(totals.goodput_mbps, of), 0);
    tiles.show("Flows", whole(status.flows));
    tiles.show("Goodput", rate(goodput));
    tiles.show("Median RTT", table.medianRtt());
    tiles.show("Switches", whole(status.changes), status.mode === "active" ? "decided" : "advised");
    tiles.show("Pool", `${status.pool.length} arms`, `k = ${status.k}`);
    tiles.show("Step, p99", `${status.step_p99_ms.toFixed(2)} ms`, `of ${status.step_ms} ms`);
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

  const stop = repeat(look, LOOK_MS);
  const now = () => look();
  arm.addEventListener("change", now);
  prefix.addEventListener("change", now);
  return () => {
    stop();
    chart.close();
  };
}

/** Replace an element's children only where `key` says that they changed. */
function replace(element, key, make) {
  if (element.dataset.key === key) return;
  element.dataset.key = key;
  element.replaceChildren(...make());
}

class Tiles {
  constructor(names) {
    this.values = new Map(names.map((name) => [name, [document.createTextNode("–"), h("small")]]));
    this.place = h("dl", { class: "tiles" }, ...[...this.values].map(([name, [value, note]]) =>
      h("div", { class: "card tile" }, h("dt", {}, name), h("dd", {}, value, " ", note))));
  }

  show(name, text, small = "") {
    const [value, note] = this.values.get(name);
    say(value, text);
    say(note, small);
  }
}

/** Rows stay the same elements as long as their flows are there, so that the focus stays where it is. */
class Table {
  constructor() {
    this.rows = new Map();
    this.rtts = [];
    this.body = h("tbody");
    this.empty = h("p", { class: "empty", hidden: true });
    this.more = h("p", { class: "soft small" });
    const head = [["To", ""], ["Arm", ""], ["Last minute", ""], ["Goodput", "number"], ["RTT", "number"],
      ["Lowest", "number wide"], ["Lost", "number wide"], ["Switches", "number wide"], ["Age", "number wide"]];
    this.place = h("div", {}, h("div", { class: "scroll" }, h("table", {},
      h("caption", { class: "skip" }, "The flows with the most goodput"),
      h("thead", {}, h("tr", {}, ...head.map(([text, kind]) => h("th", { scope: "col", class: kind }, text)))),
      this.body)), this.empty, this.more);
  }

  show(page) {
    const seen = new Map(page.flows.map((flow) => [flow.cookie, flow]));
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
    this.rtts = page.flows.map((flow) => flow.srtt_ms).filter((rtt) => rtt > 0).sort((a, b) => a - b);
    this.empty.hidden = page.flows.length > 0;
    say(this.empty, "No flow matches. A connection is here once it uses the congestion control mutant.");
    const others = page.total - page.flows.length;
    say(this.more, others > 0 ? `and ${whole(others)} more with less goodput` : "");
  }

  medianRtt() {
    return this.rtts.length ? milliseconds(this.rtts[Math.floor(this.rtts.length / 2)]) : "–";
  }
}

class Row {
  constructor(flow) {
    const number = (wide = "") => h("td", { class: `number ${wide}` });
    this.arm = h("td");
    this.spark = h("canvas", { class: "spark", "aria-hidden": "true" });
    [this.goodput, this.rtt] = [number(), number()];
    [this.least, this.lost, this.switches, this.age] = [number("wide"), number("wide"), number("wide"), number("wide")];
    this.place = h("tr", {}, h("td", {}, h("a", { href: `#/flows/${flow.cookie}` }, flow.remote)), this.arm,
      h("td", {}, this.spark), this.goodput, this.rtt, this.least, this.lost, this.switches, this.age);
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
  }
}
