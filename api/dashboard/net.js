// SPDX-License-Identifier: Apache-2.0
// Requests to the API, and its events.

const PATIENCE_MS = 8000;
const RETRY_MS = 2000;
const BACKLOG = 60;

/** A refusal, with the API's own words. */
export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** Nobody answered. `late`: the time was over; else there was no connection. */
export class Silent extends Error {
  constructor(late) {
    super(late ? "There was no answer in time." : "The API does not answer.");
    this.late = late;
  }
}

/** The answer to a request as {body, etag}. Throws `Refused`, or `Silent` where none comes in `patience` ms. */
export async function request(path, { method = "GET", body, etag, patience = PATIENCE_MS } = {}) {
  const headers = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  if (etag) headers["if-match"] = etag;
  const options = { method, headers, cache: "no-store", signal: AbortSignal.timeout(patience) };
  if (body !== undefined) options.body = JSON.stringify(body);
  let answer, text;
  try {
    answer = await fetch(path, options);
    text = await answer.text();
  } catch (error) {
    throw new Silent(error.name === "TimeoutError");
  }
  let parsed = null;
  try {
    parsed = JSON.parse(text);
  } catch {
    // A proxy's page, perhaps; its status says enough.
  }
  if (!answer.ok) throw new Refused(answer.status, parsed?.detail ?? `The API answered with HTTP status ${answer.status}.`);
  return { body: parsed, etag: answer.headers.get("etag") };
}

/** The body of a GET. */
export async function get(path, options = {}) {
  return (await request(path, options)).body;
}

const KINDS = [
  "flow-switched", "flow-advised", "flow-fallback", "flow-opened", "flow-closed", "flows-lost", "mode-changed",
  "configuration-changed", "rollout-changed", "events-left-out", "events-missed",
];

/** Call `heard(kind, data, id)` for the latest events and each new one, and `state(isOpen)` as the connection changes. */
export function listen(heard, state) {
  const source = new EventSource(`v1/events?backlog=${BACKLOG}`);
  source.onopen = () => state(true);
  source.onerror = () => {
    state(false);
    // A browser gives up where the API answers with an error, as it does without a daemon.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, RETRY_MS, heard, state);
  };
  for (const kind of KINDS) {
    source.addEventListener(kind, (event) => heard(kind, JSON.parse(event.data), event.lastEventId));
  }
}

/**
 * Call `look` at once and then about every `ms`, or after as many as it returns, while the page is seen; never two at
 * a time. Returns a stop.
 */
export function repeat(look, ms) {
  let stopped = false;
  let timer = 0;
  let busy = false;
  async function turn() {
    clearTimeout(timer);
    if (stopped || busy) return;
    busy = true;
    const wait = document.hidden ? ms : (await look()) ?? ms;
    busy = false;
    if (!stopped) timer = setTimeout(turn, wait);
  }
  document.addEventListener("visibilitychange", turn);
  turn();
  return () => {
    stopped = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", turn);
  };
}
