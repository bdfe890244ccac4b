// SPDX-License-Identifier: Apache-2.0
// The page of one flow: why it runs its arm, and its last five minutes.

import { armChart } from "./charts.js";
import { address, chip, h, paint, say } from "./dom.js";
import { duration, milliseconds, percent, rate, whole } from "./format.js";
import { get, repeat, request } from "./net.js";

const LOOK_MS = 1000;

/** Show the page in `main`; returns a function that ends it. */
export function flowPage(main, state, cookie) {
  const path = `v1/flows/${encodeURIComponent(cookie)}`;
  const title = h("h1", {}, `Flow ${cookie}`);
  const tags = h("span", {});
  const why = h("p", { class: "why", "aria-live": "polite" }, "…");
  const goodput = armChart("Throughput", 260, rate, true);
  const rtt = armChart("RTT", 220, milliseconds);
  const loss = armChart("Loss", 150, (of) => percent(of / 100));
  const switches = h("ol", { class: "switches" });
  const estimates = h("section", { class: "card", hidden: true });
  const facts = h("dl", { class: "facts" });
  const shares = h("ul", { class: "legend" });
  const arm = h("select", { "aria-label": "Arm to pin the flow to", onchange: () => (arm.dataset.chosen = "yes") });
  const pin = h("button", { type: "button", onclick: () => change("PUT", { arm: arm.value }) }, "Pin");
  const unpin = h("button", { type: "button", onclick: () => change("DELETE") }, "Unpin");
  const unkept = h("p", { class: "soft", hidden: true }, "The daemon keeps the history of 4,096 flows, and this is none of them.");
  const charts = h("div", {},
    h("h2", {}, "Throughput ", h("small", {}, "Mbit/s, last 5 minutes")), goodput.place,
    h("h2", {}, "Smoothed RTT ", h("small", {}, "ms")), rtt.place,
    h("h2", {}, "Loss ", h("small", {}, "%")), loss.place);
  const controls = h("span", { class: "head push" }, arm, pin, unpin);
  const now = h("div", { class: "two" },
    h("section", { class: "card" }, charts, unkept),
    h("div", { class: "stack loose" },
      h("section", { class: "card" }, h("h2", {}, "Last switches"), switches),
      h("section", { class: "card" }, h("h2", {}, "Now"), facts, shares)));
  const question = h("p", { class: "soft small" }, "Why this arm now?");
  // Until the flow is seen there is nothing to show of it.
  const rest = [controls, question, now];
  for (const part of rest) part.hidden = true;
  main.replaceChildren(
    h("p", {}, h("a", { href: "#/" }, "← All flows")),
    h("section", { class: "card" }, h("div", { class: "head" }, title, tags, controls), question, why),
    now, estimates);

  get("v1/arms").then(({ arms }) => {
    arm.replaceChildren(...arms.filter((one) => one.state === "available").map((one) => h("option", {}, one.name)));
  }, (error) => state.failed(error));

  async function change(method, body) {
    try {
      await request(`${path}/pin`, { method, body });
      state.told(method === "PUT" ? `The flow is pinned to ${body.arm}.` : "The daemon chooses for the flow again.");
      await look();
    } catch (error) {
      state.refused(error);
    }
  }

  async function look() {
    try {
      const [flow, past] = await Promise.all([get(path), get(`${path}/history`)]);
      state.answered();
      show(flow);
      showPast(past);
    } catch (error) {
      if (error.status === 404) {
        end();
      } else {
        state.failed(error);
      }
    }
  }

  /** The flow is not there, or no longer. */
  function end() {
    stop();
    state.ended();
    const seen = !now.hidden;
    for (const part of [controls, question]) part.hidden = true;
    say(why, seen ? "The flow has ended. Its last figures stay here."
      : "No flow has this cookie now: it has ended, or the address is wrong.");
  }

  function show(flow) {
    for (const part of rest) part.hidden = false;
    if (title.textContent !== flow.remote) title.replaceChildren(address(flow.remote));
    document.title = `${flow.remote} · ltp-switcher`;
    tags.replaceChildren(chip(flow.arm), ...(flow.pinned ? [" ", h("span", { class: "tag" }, "pinned")] : []));
    say(why, flow.why.sentence);
    paint(why, flow.arm);
    unpin.disabled = !flow.pinned;
    if (!arm.dataset.chosen) arm.value = flow.arm;
    switches.replaceChildren(...flow.why.switches.map((one) =>
      h("li", {}, h("time", { datetime: new Date(one.time * 1000).toISOString() }, `${duration(one.age_s)} ago`),
        h("span", {}, one.sentence))));
    if (!flow.why.switches.length) switches.append(h("li", { class: "empty" }, "None since the daemon saw it first."));
    showEstimates(flow);
    const share = flow.lost_pkts / Math.max(flow.lost_pkts + flow.delivered_pkts, 1);
    const values = {
      "Goodput": rate(flow.goodput_mbps), "Delivery rate": rate(flow.delivery_rate_mbps),
      "Pacing rate": flow.pacing_rate_mbps === null ? "none" : rate(flow.pacing_rate_mbps),
      "Smoothed RTT": milliseconds(flow.srtt_ms), "Lowest RTT": milliseconds(flow.min_rtt_ms),
      "Window": `${whole(flow.cwnd_pkts)} packets`, "In flight": `${whole(flow.in_flight_pkts)} packets`,
      "Lost": `${percent(share)} (${whole(flow.lost_pkts)})`, "Reward": flow.reward === null ? "–" : flow.reward.toFixed(2),
      "Switches": whole(flow.switches), "Age": duration(flow.age_s), "From": flow.local, "Cookie": flow.cookie,
    };
    facts.replaceChildren(...Object.entries(values).map(([name, text]) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, text))));
    shares.replaceChildren(...Object.entries(flow.arm_share).map(([name, part]) =>
      h("li", {}, chip(name), ` ${percent(part)} of its life`)));
  }

  function showEstimates(flow) {
    const found = flow.why.estimates;
    estimates.hidden = !found.length;
    const high = Math.max(...found.map((one) => one.upper), 1e-9);
    const low = Math.min(...found.map((one) => one.lower), 0);
    const at = (value) => `${((value - low) / (high - low)) * 100}%`;
    estimates.replaceChildren(h("h2", {}, "Expected reward by arm, with its bounds"),
      h("ul", { class: "estimates" }, ...found.map((one) => {
        const [band, mark] = [h("i"), h("b")];
        band.style.left = at(one.lower);
        band.style.width = `${((one.upper - one.lower) / (high - low)) * 100}%`;
        mark.style.left = at(one.mean);
        return h("li", {}, chip(one.arm), paint(h("div", { class: "range", "aria-hidden": "true" }, band, mark), one.arm),
          h("span", { class: "number" }, `${one.mean.toFixed(2)} (${one.lower.toFixed(2)} to ${one.upper.toFixed(2)})`));
      })));
  }

  function showPast(past) {
    [charts.hidden, unkept.hidden] = [!past.kept, past.kept];
    const last = (list) => list.at(-1) ?? null;
    goodput.show(past.time, past.goodput_mbps, past.arm,
      `Throughput over the last five minutes, now ${rate(last(past.goodput_mbps))} under ${last(past.arm)}`);
    rtt.show(past.time, past.srtt_ms, past.arm, `RTT over the last five minutes, now ${milliseconds(last(past.srtt_ms))}`);
    loss.show(past.time, past.loss.map((share) => share * 100), past.arm,
      `Loss over the last five minutes, now ${percent(last(past.loss) ?? 0)}`);
  }

  state.looksEvery(LOOK_MS);
  const stop = repeat(look, LOOK_MS);
  return () => {
    stop();
    for (const chart of [goodput, rtt, loss]) chart.close();
  };
}
