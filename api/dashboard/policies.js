// SPDX-License-Identifier: Apache-2.0
// The policies: those in force, each with a button to remove it, and a form for another one. A change is shown first.

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

  const preview = h("div", { id: "preview", role: "status" });

  async function put(policies, dryRun) {
    const query = dryRun ? "?dry_run=true" : "";
    return (await request(`v1/policies${query}`, { method: "PUT", body: { policies }, etag })).body;
  }

  /** Show what the change would do, with a button that makes it. */
  async function propose(policies, text) {
    try {
      const { added, removed } = await put(policies, true);
      if (!added.length && !removed.length) {
        preview.replaceChildren(h("p", {}, "Unchanged: there is such a policy."));
        return;
      }
      const lines = [...removed.map((words) => ["gone", `− ${words}`]), ...added.map((words) => ["come", `+ ${words}`])];
      const apply = h("button", { type: "button", class: "primary", onclick: () => make(policies, text) }, "Apply");
      preview.replaceChildren(h("p", {}, "This would change:"),
        h("ul", { class: "diff" }, ...lines.map(([kind, words]) => h("li", { class: kind }, words))),
        apply, h("button", { type: "button", onclick: () => preview.replaceChildren() }, "Cancel"));
      apply.focus();
    } catch (error) {
      preview.replaceChildren();
      state.refused(error);
    }
  }

  async function make(policies, text) {
    try {
      await put(policies, false);
      await again();
      state.told(text);
    } catch (error) {
      state.refused(error);
    }
  }

  const rows = entries.map((entry, at) => h("li", {}, h("span", {}, h("b", {}, matchOf(entry)), ` ${saysOf(entry)}`),
    h("button", {
      type: "button", "aria-label": `Remove the policy for ${matchOf(entry)}`,
      onclick: () => propose(entries.filter((_, other) => other !== at).map(given), `The policy for ${matchOf(entry)} is gone.`),
    }, "Remove")));
  const card = h("section", { class: "card", id: "policies" }, h("h2", {}, "Policies"),
    h("p", { class: "soft small" }, "For each flow the first that matches decides, of these in their order."),
    h("ul", { class: "policies" }, ...rows, rows.length ? null : h("li", { class: "empty" }, "There are none.")),
    preview, adding(arms, entries, propose));
  return card;
}

function adding(arms, entries, propose) {
  const text = (label, holder) => {
    const input = h("input", { placeholder: holder, autocomplete: "off", spellcheck: "false" });
    return [input, h("label", {}, label, input)];
  };
  const port = (label) => {
    const input = h("input", { type: "number", min: "1", max: "65535", placeholder: "any" });
    return [input, h("label", {}, label, input)];
  };
  const [prefix, prefixLabel] = text("Destination prefix", "any");
  const [netns, netnsLabel] = text("Namespace", "any");
  const [remote, remoteLabel] = port("Destination port");
  const [local, localLabel] = port("Own port");
  const does = h("select", {}, ...Object.entries(DOES).map(([name, words]) => h("option", { value: name }, words)));
  const list = h("select", { id: "policy-arm", disabled: true }, ...arms.map((arm) => h("option", {}, arm)));
  const note = h("p", { class: "small soft", role: "status" });
  const button = h("button", { class: "primary" }, "Preview");
  const made = h("form", {}, h("fieldset", {}, h("legend", {}, "Another policy"),
    h("div", { class: "facts" }, prefixLabel, netnsLabel, remoteLabel, localLabel, h("label", {}, "What to do", does),
      h("div", { class: "field" }, h("label", { for: "policy-arm" }, "Arm"), list))), note, button);

  function check() {
    list.disabled = does.value === "exclude";
    list.multiple = does.value === "pool";
    const others = netns.value.trim() || remote.value || local.value;
    const problem = !prefix.value.trim() && !others ? "Name a prefix, a namespace or a port."
      : does.value === "start" && (!prefix.value.trim() || others)
        ? "A start needs a prefix alone, because the kernel knows no more." : "";
    say(note, problem);
    button.disabled = problem !== "";
  }

  made.addEventListener("input", check);
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    const entry = {};
    if (prefix.value.trim()) entry.prefix = prefix.value.trim();
    if (netns.value.trim()) entry.netns = netns.value.trim();
    if (remote.value) entry.port = Number(remote.value);
    if (local.value) entry.local_port = Number(local.value);
    if (does.value === "exclude") entry.exclude = true;
    else if (does.value === "pool") entry.pool = [...list.selectedOptions].map((option) => option.value);
    else entry[does.value] = list.value;
    propose([...entries.map(given), entry], `There is a policy for ${matchOf(entry)}.`);
  });
  check();
  return made;
}

/** A policy as a request may have it: without the fields that say nothing. */
function given(entry) {
  return Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== null));
}

function matchOf({ prefix, port, local_port: own, netns }) {
  const parts = [prefix, netns && `namespace ${netns}`, port && `port ${port}`, own && `own port ${own}`];
  return parts.filter(Boolean).join(", ");
}

function saysOf({ exclude, pin, pool, k, start }) {
  const parts = [exclude && "left alone", pin && `held at ${pin}`, pool && `pool ${pool.join(", ")}`,
    k && `k = ${k}`, start && `start ${start}`];
  return parts.filter(Boolean).join("; ");
}
