// SPDX-License-Identifier: Apache-2.0
// The policies: those in force, each with a button to remove it, and a form for another one.

import { h, say } from "./dom.js";
import { request } from "./net.js";

const DOES = {
  exclude: "leave the flows alone",
  pin: "hold them at an arm",
  pool: "choose among these arms",
  start: "start them on an arm",
};

/** A card that shows and changes the policies. `again()` is called once they were changed. */
export function policiesCard({ body, etag }, arms, state, again) {
  const entries = body.policies;

  async function put(policies, text) {
    try {
      const answer = await request("v1/policies", { method: "PUT", body: { policies }, etag });
      const { added, removed } = answer.body;
      state.told(added.length + removed.length ? text : "Unchanged: there is such a policy.");
      await again();
    } catch (error) {
      state.refused(error);
    }
  }

  const rows = entries.map((entry, at) => h("li", {}, h("span", {}, h("b", {}, matchOf(entry)), ` ${saysOf(entry)}`),
    h("button", {
      type: "button", "aria-label": `Remove the policy for ${matchOf(entry)}`,
      onclick: () => put(entries.filter((_, other) => other !== at).map(given), `The policy for ${matchOf(entry)} is gone.`),
    }, "Remove")));
  const card = h("section", { class: "card", id: "policies" }, h("h2", {}, "Policies"),
    h("p", { class: "soft small" }, "For each flow the policy with the longest prefix decides."),
    h("ul", { class: "policies" }, ...rows, rows.length ? null : h("li", { class: "empty" }, "There are none.")),
    adding(arms, entries, put));
  return card;
}

function adding(arms, entries, put) {
  const text = (label, holder) => {
    const input = h("input", { placeholder: holder, autocomplete: "off", spellcheck: "false" });
    return [input, h("label", {}, label, input)];
  };
  const port = (label) => {
    const input = h("input", { type: "number", min: "1", max: "65535", placeholder: "any" });
    return [input, h("label", {}, label, input)];
  };
  const [prefix, prefixLabel] = text("Destination prefix", "any");
  const [remote, remoteLabel] = port("Destination port");
  const [local, localLabel] = port("Own port");
  const does = h("select", {}, ...Object.entries(DOES).map(([name, words]) => h("option", { value: name }, words)));
  const list = h("select", { id: "policy-arm", disabled: true }, ...arms.map((arm) => h("option", {}, arm)));
  const note = h("p", { class: "small soft", role: "status" });
  const button = h("button", { class: "primary" }, "Add the policy");
  const made = h("form", {}, h("fieldset", {}, h("legend", {}, "Another policy"),
    h("div", { class: "facts" }, prefixLabel, remoteLabel, localLabel, h("label", {}, "What to do", does),
      h("div", {}, h("label", { for: "policy-arm" }, "Arm"), list))), note, button);

  function check() {
    list.disabled = does.value === "exclude";
    list.multiple = does.value === "pool";
    const match = prefix.value.trim() || remote.value || local.value;
    const problem = !match ? "Name a prefix or a port."
      : does.value === "start" && (!prefix.value.trim() || remote.value || local.value)
        ? "A start needs a prefix and no port, because the kernel knows no more." : "";
    say(note, problem);
    button.disabled = problem !== "";
  }

  made.addEventListener("input", check);
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    const entry = {};
    if (prefix.value.trim()) entry.prefix = prefix.value.trim();
    if (remote.value) entry.port = Number(remote.value);
    if (local.value) entry.local_port = Number(local.value);
    if (does.value === "exclude") entry.exclude = true;
    else if (does.value === "pool") entry.pool = [...list.selectedOptions].map((option) => option.value);
    else entry[does.value] = list.value;
    put([...entries.map(given), entry], `There is a policy for ${matchOf(entry)}.`);
  });
  check();
  return made;
}

/** A policy as a request may have it: without the fields that say nothing. */
function given(entry) {
  return Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== null));
}

function matchOf({ prefix, port, local_port: own, netns }) {
  const parts = [prefix, port && `port ${port}`, own && `own port ${own}`, netns && `namespace ${netns}`];
  return parts.filter(Boolean).join(", ");
}

function saysOf({ exclude, pin, pool, k, start }) {
  const parts = [exclude && "left alone", pin && `held at ${pin}`, pool && `pool ${pool.join(", ")}`,
    k && `k = ${k}`, start && `start ${start}`];
  return parts.filter(Boolean).join("; ");
}
