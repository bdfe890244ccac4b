// SPDX-License-Identifier: Apache-2.0
// The page of the measured gain: the experiment's effects with their intervals, the arms, the advice.

import { chip, h } from "./dom.js";
import { milliseconds, percent, rate, whole } from "./format.js";
import { get, repeat } from "./net.js";
import { rolloutCard } from "./rollout.js";
import { tableCard } from "./table.js";

const LOOK_MS = 60_000;
const PATIENCE_MS = 60_000;
const RETRY_MS = 2000;
const AGES = { 86400: "the last day", 604800: "the last 7 days", 2592000: "the last 30 days", "": "all of the log" };
const MEASURES = {
  goodput: { text: "Goodput", better: 1, unit: "%" },
  rtt_p95: { text: "RTT, 95th percentile", better: -1, unit: "%" },
  completion_time: { text: "Flow completion time", better: -1, unit: "%" },
  reward: { text: "Reward", better: 1, unit: "%" },
  retransmits: { text: "Retransmits", better: -1, unit: "points" },
};
const SETTING = "Set gain.design to holdback or switchback in the configuration, and restart the daemon.";

/** Show the page in `main`; returns a function that ends it. */
export function gainPage(main, state) {
  const age = h("select", {}, ...Object.entries(AGES).map(([seconds, text]) =>
    h("option", { value: seconds, selected: seconds === "604800" }, text)));
  const place = h("div", { class: "stack plain" }, h("p", { class: "card empty" }, "Reading the log of decisions …"));
  const rollout = h("div", { class: "stack plain" });
  main.replaceChildren(
    h("div", { class: "head" }, h("h1", {}, "Does it pay here?"),
      h("span", { class: "push" }, h("label", {}, "Decisions of", age))),
    rollout, place);

  async function look() {
    const query = age.value ? `?since_s=${age.value}` : "";
    try {
      const found = await get(`v1/report${query}`, { patience: PATIENCE_MS });
      place.replaceChildren(...cards(found));
      return LOOK_MS;
    } catch (error) {
      place.replaceChildren(h("p", { class: "card empty" }, error.message));
      return error.status === 404 ? LOOK_MS : RETRY_MS;
    }
  }

  age.addEventListener("change", look);
  const ends = [repeat(look, LOOK_MS), rolloutCard(rollout, state)];
  return () => ends.forEach((end) => end());
}

function cards(found) {
  const made = [found.design === "none" ? noExperiment(found) : experiment(found)];
  if (Object.keys(found.flow_reward).length) made.push(bySize(found.flow_reward));
  if (Object.keys(found.prefixes).length) made.push(byPrefix(found.prefixes));
  if (Object.keys(found.advice).length) made.push(advice(found));
  if (Object.keys(found.arms).length) made.push(byArm(found.arms));
  return made;
}

function noExperiment(found) {
  return h("section", { class: "card" }, h("h2", {}, "No experiment yet"),
    h("p", {}, `${whole(found.decisions)} decisions, none of an experiment. ${SETTING}`));
}

function experiment(found) {
  const most = (unit) => Math.max(0.0005, ...Object.entries(MEASURES).flatMap(([name, measure]) => {
    const effect = measure.unit === unit ? found.overall[name] : null;
    return effect ? [Math.abs(effect.lower), Math.abs(effect.upper)] : [];
  }));
  const what = found.design === "holdback"
    ? "Prefixes with the daemon's choices against prefixes on the protocol of before."
    : "Time blocks with the daemon's choices against blocks on the protocol of before.";
  return h("section", { class: "card" },
    h("h2", {}, "Change by the daemon's choices, with 95 % intervals"),
    h("p", { class: "soft small" }, `A ${found.design}, ${whole(found.decisions)} decisions. ${what}`),
    h("ul", { class: "effects" }, ...Object.entries(MEASURES).map(([name, measure]) =>
      h("li", {}, h("span", {}, measure.text), ...effectOf(found.overall[name], measure, most(measure.unit))))));
}

function effectOf(effect, measure, most) {
  if (!effect) return [h("span", { class: "soft" }, "not known yet: too few units"), h("span"), h("span")];
  const [band, mark, zero] = [h("i"), h("b"), h("em")];
  const at = (value) => `${50 + (50 * value) / most}%`;
  band.style.left = at(effect.lower);
  band.style.width = `${(50 * (effect.upper - effect.lower)) / most}%`;
  mark.style.left = at(effect.value);
  const [word, kind] = verdict(effect, measure.better);
  const bar = h("div", { class: `range centred ${kind}`, "aria-hidden": "true" }, band, mark, zero);
  return [bar, h("span", { class: "number" }, change(effect, measure)),
    h("span", { class: `tag ${kind}`, title: `${effect.treated} units with, ${effect.control} without` }, word)];
}

function verdict(effect, better) {
  if (effect.lower <= 0 && effect.upper >= 0) return ["no clear change", ""];
  return (effect.lower > 0) === (better > 0) ? ["better", "good"] : ["worse", "bad"];
}

function change(effect, measure) {
  const digits = Math.abs(effect.value) < 0.01 && measure.unit === "points" ? 2 : 1;
  const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value * 100).toFixed(digits)}`;
  return `${signed(effect.value)} ${measure.unit} (${signed(effect.lower)} to ${signed(effect.upper)})`;
}

function table(title, head, rows) {
  return tableCard(title, head, h("tbody", {}, ...rows.map((cells) =>
    h("tr", {}, ...cells.map((cell, at) => h("td", { class: head[at][1] }, cell))))));
}

function bySize(effects) {
  return table("By the size of a flow", [["Size", ""], [MEASURES.reward.text, "number"]],
    Object.entries(effects).map(([size, effect]) => [size, cell(effect, MEASURES.reward)]));
}

function byPrefix(prefixes) {
  const head = [["Prefix", ""], ...Object.values(MEASURES).map((one) => [one.text, "number"])];
  return table("By prefix", head, Object.entries(prefixes).map(([prefix, effects]) =>
    [prefix, ...Object.entries(MEASURES).map(([name, measure]) => cell(effects[name], measure))]));
}

function cell(effect, measure) {
  if (!effect) return h("span", { class: "soft" }, "not known yet");
  return h("span", { class: verdict(effect, measure.better)[1] }, change(effect, measure));
}

function byArm(arms) {
  const of = (found, text) => (found ? `${text(found[0])} (${text(found[1])} to ${text(found[2])})` : "–");
  const rows = Object.entries(arms).sort((one, other) => other[1].share - one[1].share).map(([name, use]) => [
    chip(name), percent(use.share),
    of(use.goodput_Bps, (value) => rate(value * 8e-6)),
    of(use.rtt_p95_us, (value) => milliseconds(value / 1000)),
    of(use.completion_time_s, (value) => milliseconds(value * 1000)),
    of(use.retransmits, (share) => percent(Math.max(share, 0))),
  ]);
  const head = [["Protocol", ""], ["Of the data", "number"], ["Goodput", "number"], ["RTT, 95th percentile", "number"],
    ["Completion time", "number"], ["Retransmits", "number"]];
  return table("By protocol, the mean prefix; no comparison, for each ran on other paths", head, rows);
}

function advice(found) {
  const agreed = found.agreed ? `, ${percent(found.agreed[0])} of the time on the mean prefix` : "";
  const rows = Object.entries(found.advice).map(([prefix, one]) => [
    prefix, percent(one.agreed),
    one.expected
      ? `${one.expected.value.toFixed(2)} (${one.expected.lower.toFixed(2)} to ${one.expected.upper.toFixed(2)})` : "–",
    one.verdict,
  ]);
  return table(`Advice and traffic agreed${agreed}; expected changes are estimates`,
    [["Prefix", ""], ["Agreed", "number"], ["Expected change of the reward", "number"], ["Verdict", ""]], rows);
}
