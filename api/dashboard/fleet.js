// SPDX-License-Identifier: Apache-2.0
// The page of the fleet: the store and its lag, the other hosts of the site, and what came from where.

import { chip, h, replace, say } from "./dom.js";
import { duration, percent, whole } from "./format.js";
import { get, repeat } from "./net.js";
import { Listing } from "./table.js";
import { Tiles } from "./tiles.js";

const LOOK_MS = 1000;
const NAMES_SHOWN = 3;
const SETTINGS = `[visits]
learn = "on"

[fleet]
share = "on"
store = ["store.example:6379"]`;
const RESTART = "systemctl restart ltp-switcher ltp-switcher-fleet";

const HOST_COLUMNS = [
  ["Host", "named", showHost],
  ["Lessons", "number", (cell, host) => say(cell, whole(host.lessons))],
  ["Seen", "number", (cell, host) => say(cell, `${duration(host.age_s)} ago`)],
  ["Refused", "number", (cell, host) => say(cell, whole(host.refused))],
  ["Far from all others", "number", (cell, host) => say(cell, host.compared ? percent(host.apart / host.compared) : "–")],
  ["Version", "number", (cell, host) => say(cell, host.version)],
];
const PREFIX_COLUMNS = [
  ["Prefix", "address", (cell, told) => say(cell, told.prefix)],
  ["Hosts", "number", (cell, told) => say(cell, whole(told.hosts))],
  ["From", "named", showSources],
  ["Age", "number", (cell, told) => say(cell, duration(told.age_s))],
  ["Own visits", "number", (cell, told) => say(cell, whole(told.visits))],
  ["Reward over the decision's own choice", "", showEffects],
];

/** Show the page in `main`; returns a function that ends it. */
export function fleetPage(main, state) {
  const tiles = new Tiles(["Store", "Lag", "Hosts", "Prefixes", "Lessons written"]);
  const said = h("p", { role: "status" });
  const hosts = new Listing("Other hosts of the site", HOST_COLUMNS, "No other host has been seen yet.");
  const prefixes = new Listing("What came from where", PREFIX_COLUMNS,
    "Nothing yet. Prefixes are here once another host knows something about them.");
  const on = [h("section", { class: "card" }, said), tiles.place, hosts.place, prefixes.place];
  const off = [offCard()];
  const place = h("div", { class: "stack plain" }, h("p", { class: "card empty" }, "Reading the state of the fleet …"));
  let shown = null;
  main.replaceChildren(h("h1", {}, "Fleet"), place);

  async function look() {
    try {
      const found = await get("v1/fleet");
      state.answered();
      if (found.share) show(found);
      const wanted = found.share ? on : off;
      if (shown !== wanted) place.replaceChildren(...wanted);
      shown = wanted;
    } catch (error) {
      state.failed(error);
    }
  }

  function show(found) {
    const [text, bad] = summary(found);
    say(said, text);
    said.className = bad ? "bad" : "";
    const shutOut = found.hosts.filter((host) => host.shut_out).length;
    tiles.show("Store", found.reachable ? "reached" : "away", found.store, !found.reachable);
    tiles.show("Lag", found.exchanges ? duration(found.lag_s) : "–", "last exchange", !found.reachable);
    tiles.show("Hosts", whole(found.hosts.length), shutOut ? `${whole(shutOut)} shut out` : "beside this one");
    tiles.show("Prefixes", whole(found.told), found.without_room ? `no room for ${whole(found.without_room)}`
      : "others know them", found.without_room > 0);
    tiles.show("Lessons written", whole(found.written), found.write_failures
      ? `the store refused ${whole(found.write_failures)}` : `${whole(found.read)} read`, found.write_failures > 0);
    hosts.show(found.hosts);
    prefixes.show(found.prefixes);
  }

  state.looksEvery(LOOK_MS);
  return repeat(look, LOOK_MS);
}

/** How the exchange stands, and whether somebody must act. */
function summary(found) {
  if (!found.running) return ["ltp-switcher-fleet does not run. `systemctl status ltp-switcher-fleet` tells why.", true];
  if (found.namesakes) return [`Another host of the site is called ${found.host}, too. Set fleet.host to another name.`, true];
  if (!found.reachable) return [`The store is away: ${found.error || "no exchange yet"}. This host goes on with its copy.`, true];
  return [`${found.host} shares with the hosts of the site ${found.site}.`, false];
}

function offCard() {
  return h("section", { class: "card", id: "fleet-off" }, h("h2", {}, "Sharing is off"),
    h("p", {}, "This host tells others nothing, and hears nothing from them. With sharing on, the hosts of a site tell each "
      + "other which protocol suits which network. A new host then begins with the knowledge of the others."),
    h("p", { class: "gap" }, "To turn it on, name a store of the Redis protocol in the configuration:"),
    h("pre", {}, SETTINGS),
    h("p", {}, "Then restart both services. docs/fleet.md tells how to set certificates and passwords."),
    h("pre", {}, RESTART));
}

function showHost(cell, host) {
  replace(cell, `${host.name} ${host.disagrees} ${host.shut_out}`, () => [host.name,
    ...(host.disagrees ? [" ", h("span", { class: "tag warn" }, "disagrees")] : []),
    ...(host.shut_out ? [" ", h("span", { class: "tag" }, "shut out")] : [])]);
}

function showSources(cell, { from }) {
  const more = from.length - NAMES_SHOWN;
  say(cell, (from.slice(0, NAMES_SHOWN).join(", ") || "–") + (more > 0 ? ` and ${more} more` : ""));
  cell.title = from.join(", ");
}

/** The factor of the reward of each arm, the best one first. */
function showEffects(cell, { effects }) {
  const factors = Object.entries(effects).sort(([, one], [, other]) => other.mean - one.mean)
    .map(([arm, { mean }]) => [arm, `× ${Math.exp(mean).toFixed(2)}`]);
  replace(cell, factors.join(), () => factors.map(([arm, factor]) => h("span", { class: "factor" }, chip(arm), ` ${factor}`)));
}
