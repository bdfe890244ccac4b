// SPDX-License-Identifier: Apache-2.0
// The card of a rollout: its stage, the proven change of goodput, and when it goes on.

import { h } from "./dom.js";
import { duration, percent } from "./format.js";
import { get, repeat, request } from "./net.js";

const LOOK_MS = 5000;
const ENDS = {
  done: ["done", "good"], harm: ["back in advise", "bad"], undecided: ["back in advise", "warn"],
  aborted: ["aborted", ""], damaged: ["back in advise", "bad"], running: ["under way", ""],
};

/** Keep the card in `place` up to date; returns a function that ends it. */
export function rolloutCard(place, state) {
  // The button stays while the facts are drawn anew, so that it keeps the focus.
  const facts = h("div");
  const button = h("button", { type: "button", onclick: abort }, "Abort the rollout");
  const end = h("p", { class: "gap" }, button);
  const card = h("section", { class: "card", id: "rollout" }, facts);

  async function look() {
    try {
      const told = await get("v1/rollout");
      facts.replaceChildren(...lines(told));
      if (told.state !== "running") end.remove();
      else if (!end.parentNode) card.append(end);
      // Without a rollout the card would only take room.
      if (told.state === "none") card.remove();
      else if (!card.parentNode) place.append(card);
    } catch {
      // The frame says that nobody answers.
    }
  }

  async function abort() {
    button.disabled = true;
    try {
      await request("v1/rollout", { method: "DELETE" });
      state.told("The rollout is aborted: the mode is advise.");
    } catch (error) {
      state.refused(error);
    }
    button.disabled = false;
    await look();
  }

  return repeat(look, LOOK_MS);
}

function lines({ state, reason, rollout }) {
  const [word, kind] = ENDS[state] ?? [state, ""];
  const made = [h("h2", {}, "Rollout ", h("span", { class: `tag ${kind}` }, word))];
  if (reason) made.push(h("p", {}, `${reason[0].toUpperCase()}${reason.slice(1)}.`));
  if (!rollout) return made;
  made.push(
    h("ol", { class: "stages", "aria-label": "Stages" }, ...rollout.stages.map((share, at) =>
      h("li", { class: at + 1 < rollout.stage || state === "done" ? "past" : "", "aria-current": at + 1 === rollout.stage ? "step" : null },
        percent(share)))),
    h("p", {}, `Goodput of the treated traffic: ${change(rollout)}.`));
  if (state !== "running") return made;
  const soon = rollout.detect_s === null ? "not known before a round of this stage is judged" : `about ${duration(rollout.detect_s)}`;
  made.push(
    h("p", { class: "soft small" }, `In this stage for ${duration(rollout.stage_s)}, at least ${duration(rollout.stage_min_s)}; `
      + `${rollout.rounds} rounds of ${duration(rollout.round_s)} judged. The next stage begins once a change of `
      + `${signed(rollout.must_exclude)} or worse is excluded. Time to prove a harm of 10 %: ${soon}.`));
  return made;
}

function change({ estimate, lower, upper }) {
  if (estimate === null) return "nothing is known yet";
  const ends = [lower === null ? null : `above ${signed(lower)}`, upper === null ? null : `below ${signed(upper)}`];
  return `${signed(estimate)}, proven ${ends.filter((end) => end !== null).join(" and ") || "nothing yet"}`;
}

function signed(share) {
  return `${share < 0 ? "−" : "+"}${Math.abs(share * 100).toFixed(1)} %`;
}
