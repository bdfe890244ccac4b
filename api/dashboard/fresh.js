// SPDX-License-Identifier: Apache-2.0
// The age of what is shown. Old figures are marked as old by the clock alone, whatever became of the requests.

import { say } from "./dom.js";
import { clock, duration } from "./format.js";
import { request } from "./net.js";

const LATE_MS = 2500;
const CHECK_MS = 250;
const PROBE_MS = 1500;
/** After the page was hidden, its requests need a moment. */
const GRACE_MS = 1000;
const BEHIND_MS = 2000;

/** Watches its sources of figures, and tells in `banner` and `pill` when one has been silent for too long. */
export class Freshness {
  constructor(banner, pill) {
    [this.banner, this.pill] = [banner, pill];
    [this.text, this.age] = ["span", "small"].map((name) => banner.appendChild(document.createElement(name)));
    this.age.setAttribute("aria-hidden", "true");
    this.began = Date.now();
    this.sources = new Map();
    this.fault = "";
    this.late = 0;
    this.probing = false;
    this.listening = false;
    this.shown = -Infinity;
    document.addEventListener("visibilitychange", () => (this.shown = Date.now()));
    setInterval(() => this.check(), CHECK_MS);
  }

  /** A source of figures that should answer from now on; `every` is the time between its requests, in ms. */
  await(source, every) {
    this.sources.set(source, { answered: null, since: Date.now(), every });
    this.check();
  }

  forget(source) {
    this.sources.delete(source);
    this.check();
  }

  answered(source) {
    const known = this.sources.get(source);
    if (known) known.answered = known.since = Date.now();
    this.fault = "";
    this.check();
  }

  failed(error) {
    // A time-out does not tell who is silent; `probe` finds out.
    this.fault = error.late ? "" : sentence(error.message);
  }

  /** The daemon answers, but `status` shows that it stopped to look at its flows. */
  behind(status) {
    const allowed = BEHIND_MS + Math.max(status.step_ms, status.idle_step_ms);
    this.late = status.last_step_age_ms > allowed ? Date.now() - status.last_step_age_ms : 0;
  }

  /** Whether events come. */
  hears(is) {
    this.listening = is;
    this.check();
  }

  check() {
    const now = Date.now();
    if (document.hidden || now - this.shown < GRACE_MS) return;
    const silent = [...this.sources.values()].filter((one) => now - one.since > LATE_MS + Math.max(one.every - 1000, 0));
    const stale = silent.length > 0 || this.late > 0;
    document.body.classList.toggle("stale", stale);
    this.banner.hidden = !stale;
    this.pill.classList.toggle("on", !stale && this.listening);
    const waiting = [...this.sources.values()].some((one) => one.answered === null);
    say(this.pill, stale ? "no answer" : this.listening ? "live" : waiting ? "connecting" : "reconnecting");
    if (!stale) return;
    if (silent.length && !this.fault) this.probe();
    const since = silent.length ? Math.min(...silent.map((one) => one.answered ?? Infinity)) : this.late;
    const known = Number.isFinite(since);
    const why = silent.length ? this.fault || "There is no answer." : "The daemon answers, but its loop stands still.";
    say(this.text, `${why} ${known ? `The figures are from ${clock(since / 1000)}` : "There are no figures yet."}`);
    say(this.age, known ? `, ${duration((now - since) / 1000)} ago.` : "");
  }

  /** Find out who is silent: the page's own files need no daemon. */
  async probe() {
    if (this.probing) return;
    this.probing = true;
    try {
      await request("dashboard/icon.svg", { patience: PROBE_MS });
      this.fault ||= "The daemon does not answer.";
    } catch {
      this.fault ||= "The API does not answer.";
    }
    this.probing = false;
  }
}

function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}
