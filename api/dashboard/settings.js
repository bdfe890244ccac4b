// SPDX-License-Identifier: Apache-2.0
// The page of the settings that a running daemon takes: mode, pool, k, policies.

import { chip, h, say } from "./dom.js";
import { get, repeat, request } from "./net.js";
import { policiesCard } from "./policies.js";

const RETRY_MS = 2000;
const MODES = {
  active: "Decide, and switch the flows.",
  advise: "Decide and tell, but switch nothing.",
  off: "Measure only.",
};

/** Show the page in `main`; returns a function that ends it. */
export function settingsPage(main, state) {
  const place = h("div", { class: "two" }, h("p", { class: "card empty" }, "Reading the settings …"));
  main.replaceChildren(h("h1", {}, "Settings"),
    h("p", { class: "soft" }, "Changes hold at once, and after a restart."), place);

  let loaded = false;
  async function load() {
    try {
      const [mode, pool, k, arms, policies] = await Promise.all([
        request("v1/mode"), request("v1/pool"), request("v1/k"), get("v1/arms"), request("v1/policies"),
      ]);
      const available = arms.arms.filter((arm) => arm.state === "available").map((arm) => arm.name);
      place.replaceChildren(modeForm(mode), kForm(k, pool), poolForm(pool, arms.arms),
        policiesCard(policies, available, state, load));
      loaded = true;
      stop();
    } catch (error) {
      if (loaded) state.refused(error);
      else place.replaceChildren(h("p", { class: "card empty" }, error.message));
    }
  }

  /** A form whose button is there to press once something differs. */
  function form(title, fields, changed, save) {
    const button = h("button", { class: "primary", disabled: true }, "Save");
    const note = h("p", { class: "small soft", role: "status" });
    const made = h("form", { class: "card" }, h("fieldset", {}, h("legend", {}, title), ...fields), note, button);
    made.addEventListener("input", () => {
      const problem = changed();
      button.disabled = problem !== "";
      say(note, problem ?? "");
    });
    made.addEventListener("submit", async (event) => {
      event.preventDefault();
      button.disabled = true;
      try {
        const told = await save();
        await load();
        state.told(told);
      } catch (error) {
        state.refused(error);
        button.disabled = false;
      }
    });
    return made;
  }

  function modeForm({ body }) {
    const radios = Object.keys(MODES).map((mode) =>
      h("input", { type: "radio", name: "mode", value: mode, checked: mode === body.mode }));
    const chosen = () => radios.find((radio) => radio.checked).value;
    const fields = radios.map((radio) => h("label", { class: "choice" }, radio,
      h("span", {}, radio.value, h("small", {}, MODES[radio.value]))));
    return form("Mode", fields, () => (chosen() === body.mode ? " " : ""), async () => {
      await request("v1/mode", { method: "PUT", body: { mode: chosen() } });
      return `The mode is ${chosen()}.`;
    });
  }

  function kForm({ body, etag }, pool) {
    const most = pool.body.arms.length;
    const input = h("input", { type: "number", min: "1", max: String(most), value: String(body.k), required: true });
    const field = h("label", {}, `Arms that team selection picks for a path, 1 to ${most}`, input);
    const changed = () => {
      if (!input.validity.valid) return `k is a whole number from 1 to ${most}.`;
      return Number(input.value) === body.k ? " " : "";
    };
    return form("Team size k", [field], changed, async () => {
      const answer = await request("v1/k", { method: "PUT", body: { k: Number(input.value) }, etag });
      return [`k is ${answer.body.k}`, answer.body.note].filter(Boolean).join("; ") + ".";
    });
  }

  function poolForm({ body, etag }, arms) {
    const now = new Set(body.arms);
    const boxes = arms.map((arm) => h("input", {
      type: "checkbox", value: arm.name, checked: now.has(arm.name), disabled: arm.state !== "available",
    }));
    const chosen = () => boxes.filter((box) => box.checked).map((box) => box.value);
    const fields = arms.map((arm, at) => h("label", { class: "choice" }, boxes[at],
      h("span", {}, chip(arm.name), h("small", {}, arm.state === "available" ? arm.kind : arm.reason ?? arm.state))));
    const changed = () => {
      if (!chosen().length) return "The pool needs one arm.";
      return chosen().length === now.size && chosen().every((arm) => now.has(arm)) ? " " : "";
    };
    const made = form("Pool: the arms to choose among", [h("div", { class: "facts grid3" }, ...fields)], changed, async () => {
      await request("v1/pool", { method: "PUT", body: { arms: chosen() }, etag });
      return `The pool is ${chosen().join(", ")}.`;
    });
    made.id = "pool";
    return made;
  }

  const stop = repeat(load, RETRY_MS);
  return stop;
}
