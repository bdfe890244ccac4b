// SPDX-License-Identifier: Apache-2.0
// Numbers and times as people read them.

/** A rate given in Mbit/s. */
export function rate(mbps) {
  if (mbps === null || mbps === undefined) return "–";
  if (mbps >= 1000) return `${digits(mbps / 1000)} Gbit/s`;
  if (mbps >= 1) return `${digits(mbps)} Mbit/s`;
  return `${digits(mbps * 1000)} kbit/s`;
}

/** A time given in ms. */
export function milliseconds(ms) {
  if (ms === null || ms === undefined) return "–";
  return ms >= 10000 ? `${digits(ms / 1000)} s` : `${digits(ms)} ms`;
}

/** A share of 1. */
export function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${(share * 100).toFixed(share < 0.1 && share > 0 ? 1 : 0)} %`;
}

/** A length of time given in s. */
export function duration(s) {
  if (s < 100) return `${Math.round(s)} s`;
  if (s < 6000) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} days`;
}

/** The time of day of a Unix time in s. */
export function clock(unix) {
  return new Date(unix * 1000).toLocaleTimeString([], { hour12: false });
}

/** A whole number with separators. */
export function whole(number) {
  return number.toLocaleString("en-GB");
}

/** Three significant digits. */
function digits(value) {
  if (value >= 100) return value.toFixed(0);
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
