// SPDX-License-Identifier: Apache-2.0
// The frame of the dashboard: pages by the address's fragment, the mode, the age of the figures, notices.

import { h, say } from "./dom.js";
import { heard } from "./feed.js";
import { fleetPage } from "./fleet.js";
import { flowPage } from "./flow.js";
import { flowsPage } from "./flows.js";
import { Freshness } from "./fresh.js";
import { gainPage } from "./gain.js";
import { get, listen, repeat } from "./net.js";
import { settingsPage } from "./settings.js";

const NOTICE_MS = 6000;
const LOOK_MS = 1000;
const COOKIE = /^[1-9][0-9]{0,19}$/;
const byId = (id) => document.getElementById(id);
const [main, mode, notice] = ["main", "mode", "notice"].map(byId);
const fresh = new Freshness(byId("stale"), byId("live"));
let hide = 0;
let latest = null;
let heed = null;

function announce(text, bad) {
  say(notice, text);
  notice.classList.toggle("bad", bad);
  notice.hidden = false;
  clearTimeout(hide);
  hide = setTimeout(() => (notice.hidden = true), NOTICE_MS);
}

function showMode(name) {
  say(mode, name);
  mode.className = `badge ${name}`;
  mode.title = `The daemon's mode is ${name}`;
}

/** The pages report here how their requests went. */
const state = {
  /** The page asks for figures every `ms` from now on, and tells each time with `answered` or `failed`. */
  looksEvery(ms) {
    fresh.await("page", ms);
  },
  /** Call `seen(status)` with each status of the daemon while the page is there. */
  onStatus(seen) {
    heed = seen;
    if (latest) seen(latest);
  },
  answered() {
    fresh.answered("page");
  },
  failed(error) {
    fresh.failed(error);
  },
  /** No more figures will come. */
  ended() {
    fresh.forget("page");
  },
  refused(error) {
    announce(error.message, true);
  },
  told(text) {
    announce(text, false);
  },
};

async function look() {
  try {
    latest = await get("v1/status");
    fresh.behind(latest);
    fresh.answered("status");
    showMode(latest.mode);
    heed?.(latest);
  } catch (error) {
    fresh.failed(error);
  }
}

function nothingPage(what) {
  document.title = "Not found · ltp-switcher";
  main.replaceChildren(h("section", { class: "card" }, h("h1", {}, "Nothing is here"),
    h("p", { class: "soft gap" }, what), h("p", { class: "gap" }, h("a", { href: "#/" }, "← All flows"))));
  return () => {};
}

const PAGES = { "": flowsPage, flows: flowsPage, gain: gainPage, fleet: fleetPage, settings: settingsPage };
let end = () => {};

function route() {
  end();
  heed = null;
  fresh.forget("page");
  const [name = "", cookie] = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean);
  document.title = "ltp-switcher";
  // Greyed while they are old, unlike forms and reports.
  main.classList.toggle("figures", ["", "flows", "fleet"].includes(name));
  if (name === "flows" && cookie !== undefined) {
    end = COOKIE.test(cookie) ? flowPage(main, state, cookie)
      : nothingPage("A flow's page ends with its cookie, a whole number: #/flows/4711.");
  } else if (Object.hasOwn(PAGES, name)) end = PAGES[name](main, state);
  else end = nothingPage(`There is no page of this name. The pages are Flows, Gain, Fleet and Settings.`);
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.hash === (["gain", "fleet", "settings"].includes(name) ? `#/${name}` : "#/");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

addEventListener("hashchange", () => {
  route();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});
document.querySelector("a.skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
fresh.await("status", LOOK_MS);
listen((kind, data, id) => {
  if (kind === "mode-changed") showMode(data.after);
  heard(kind, data, id);
}, (is) => fresh.hears(is));
repeat(look, LOOK_MS);
route();
