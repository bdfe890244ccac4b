// SPDX-License-Identifier: Apache-2.0
// The frame of the dashboard: pages by the address's fragment, the mode, the connection, notices.

import { say } from "./dom.js";
import { heard } from "./feed.js";
import { flowPage } from "./flow.js";
import { flowsPage } from "./flows.js";
import { gainPage } from "./gain.js";
import { get, listen } from "./net.js";
import { settingsPage } from "./settings.js";

const NOTICE_MS = 6000;
const byId = (id) => document.getElementById(id);
const [main, mode, live, notice] = ["main", "mode", "live", "notice"].map(byId);
let hide = 0;

function announce(text, bad) {
  say(notice, text);
  notice.classList.toggle("bad", bad);
  notice.hidden = false;
  clearTimeout(hide);
  hide = setTimeout(() => (notice.hidden = true), NOTICE_MS);
}

function connected(is) {
  live.classList.toggle("on", is);
  say(live, is ? "live" : "reconnecting");
}

function showMode(name) {
  say(mode, name);
  mode.className = `badge ${name}`;
  mode.title = `The daemon's mode is ${name}`;
}

/** The pages report here how their requests went. */
const state = {
  answered(status) {
    if (status) showMode(status.mode);
    if (notice.dataset.failed) {
      delete notice.dataset.failed;
      notice.hidden = true;
    }
  },
  failed(error) {
    notice.dataset.failed = "yes";
    announce(error.status ? error.message : "The API does not answer. The page tries again.", true);
  },
  refused(error) {
    announce(error.message, true);
  },
  told(text) {
    announce(text, false);
  },
};

let end = () => {};

function route() {
  end();
  const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean);
  document.title = "ltp-switcher";
  if (parts[0] === "flows" && parts[1]) end = flowPage(main, state, decodeURIComponent(parts[1]));
  else if (parts[0] === "settings") end = settingsPage(main, state);
  else if (parts[0] === "gain") end = gainPage(main, state);
  else end = flowsPage(main, state);
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.hash === (["settings", "gain"].includes(parts[0]) ? `#/${parts[0]}` : "#/");
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
listen((kind, data) => {
  if (kind === "mode-changed") showMode(data.after);
  heard(kind, data);
}, connected);
get("v1/mode").then((found) => showMode(found.mode), () => {});
route();
