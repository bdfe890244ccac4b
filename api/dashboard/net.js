// SPDX-License-Identifier: Apache-2.0
// Requests to the API, and its events.

/** A refusal, with the API's own words. */
export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** The answer to a request as {body, etag}. Throws `Refused`, or TypeError where nobody answers. */
export async function request(path, { method = "GET", body, etag } = {}) {
  const headers = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  if (etag) headers["if-match"] = etag;
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const text = await answer.text();
  let parsed = null;
  try {
    parsed = JSON.parse(text);
  } catch {
    // A proxy's page, perhaps; its status says enough.
  }
  if (!answer.ok) throw new Refused(answer.status, parsed?.detail ?? `HTTP status ${answer.status}`);
  return { body: parsed, etag: answer.headers.get("etag") };
}

/** The body of a GET. */
export async function get(path) {
  return (await request(path)).body;
}

const KINDS = [
  "flow-switched", "flow-advised", "flow-fallback", "flow-opened", "flow-closed", "flows-lost", "mode-changed",
  "configuration-changed", "events-left-out", "events-missed",
];

/** Call `heard(kind, data)` for every event and `state(isOpen)` as the connection comes and goes. */
export function listen(heard, state) {
  const source = new EventSource("v1/events");
  source.onopen = () => state(true);
  source.onerror = () => state(false);
  for (const kind of KINDS) {
    source.addEventListener(kind, (event) => heard(kind, JSON.parse(event.data)));
  }
}

/** Call `look` at once and then about every `ms` while the page is seen; never two at a time. Returns a stop. */
export function repeat(look, ms) {
  let stopped = false;
  let timer = 0;
  let busy = false;
  async function turn() {
    clearTimeout(timer);
    if (stopped || busy) return;
    busy = true;
    if (!document.hidden) await look();
    busy = false;
    if (!stopped) timer = setTimeout(turn, ms);
  }
  document.addEventListener("visibilitychange", turn);
  turn();
  return () => {
    stopped = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", turn);
  };
}
