// SPDX-License-Identifier: Apache-2.0
// Charts over the last five minutes, by uPlot, in the palette's colours. A pointer or the arrow keys read values.

import uPlot from "./vendor/uPlot.esm.js";
import { chip, colour, h, token } from "./dom.js";
import { clock } from "./format.js";

const SPAN_S = 300;
const LEAST_S = 60;
/** A time stands with its middle at its moment, so half of the newest one needs room at the right. */
const RIGHT_PX = 20;
const all = new Set();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => all.forEach((chart) => chart.rebuild()));

/**
 * A chart that fits its place. `options` makes uPlot's options; `label` names it to those who cannot see it;
 * `read` makes the lines that tell the values at a point, as [what, text].
 */
class Chart {
  constructor(label, height, options, read) {
    this.height = height;
    this.options = options;
    this.read = read;
    this.data = null;
    this.plot = null;
    this.place = h("div", {
      class: "chart", role: "img", tabindex: "0", "aria-label": label,
      onkeydown: (event) => this.step(event), onblur: () => this.plot?.setCursor({ left: -10, top: -10 }, true, true),
    });
    this.place.style.minHeight = `${height}px`;
    this.watch = new ResizeObserver(() => this.fit());
    this.watch.observe(this.place);
    all.add(this);
  }

  show(data, label) {
    this.data = data;
    if (this.place.getAttribute("aria-label") !== label) this.place.setAttribute("aria-label", label);
    if (this.plot) this.plot.setData(data);
    else this.rebuild();
  }

  rebuild() {
    if (!this.data || !this.place.clientWidth) return;
    this.plot?.destroy();
    const options = {
      width: this.place.clientWidth, height: this.height, legend: { show: false }, padding: [10, RIGHT_PX, 0, 0],
      plugins: [{ hooks: { setCursor: (plot) => this.tell(plot) } }], ...this.options(),
    };
    this.tip = h("div", { class: "tip", hidden: true });
    this.plot = new uPlot(options, this.data, this.place);
    this.plot.over.append(this.tip);
  }

  /** Show the values at the cursor, on the side where there is space. */
  tell(plot) {
    const { left, idx: at } = plot.cursor;
    this.tip.hidden = left < 0 || at === null || at === undefined;
    if (this.tip.hidden) return;
    this.tip.replaceChildren(h("b", {}, clock(this.data[0][at])), ...this.read(at).map(([what, text]) =>
      h("div", {}, h("span", {}, what), h("span", { class: "number" }, text))));
    const right = left > plot.over.clientWidth / 2;
    this.tip.style.left = `${left + (right ? -12 : 12)}px`;
    this.tip.classList.toggle("before", right);
  }

  step(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!move || !this.plot) return;
    event.preventDefault();
    const last = this.data[0].length - 1;
    const at = Math.min(Math.max((this.plot.cursor.idx ?? last) + move, 0), last);
    this.plot.setCursor({ left: this.plot.valToPos(this.data[0][at], "x"), top: 0 }, true, true);
  }

  fit() {
    if (this.plot) this.plot.setSize({ width: this.place.clientWidth, height: this.height });
    else this.rebuild();
  }

  close() {
    this.watch.disconnect();
    this.plot?.destroy();
    all.delete(this);
  }
}

function axes() {
  const font = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
  const common = { stroke: token("soft"), font, grid: { stroke: token("grid"), width: 1 }, ticks: { show: false } };
  const time = (_, splits) => splits.map((at) => new Date(at * 1000).toTimeString().slice(0, 5));
  return [
    { ...common, size: 28, values: time, incrs: [60, 120, 300], space: 60, grid: { show: false } },
    { ...common, size: 62, space: 36, values: (_, splits) => splits.map((v) => (v === null ? "" : `${v}`)) },
  ];
}

const cursor = { y: false, points: { size: 6 }, drag: { x: false, y: false } };
/** The same stretch of time at each look, so that a young flow's line does not fill all of it. */
const recent = {
  range: (plot) => {
    const times = plot.data[0];
    const last = times.at(-1) ?? Date.now() / 1000;
    return [last - Math.min(Math.max(last - (times[0] ?? last), LEAST_S), SPAN_S), last];
  },
};
const fromZero = { range: (_, __, most) => [0, most > 0 ? most * 1.12 : 1] };
const fromZeroBelowNames = { range: (_, __, most) => [0, most > 0 ? most * 1.22 : 1] };

/** Goodput of all flows, stacked by arm. `text` writes a value. */
export function stackedChart(height, text) {
  let arms = [];
  let goodputs = {};
  let drawn = "";
  const chart = new Chart("Goodput by arm", height, () => ({
    axes: axes(),
    cursor,
    scales: { x: recent, y: fromZero },
    series: [{}, ...[...arms].reverse().map((arm) => ({
      stroke: token("card"), width: 1, fill: colour(arm), points: { show: false },
    }))],
  }), (at) => {
    const rows = [...arms].reverse().filter((arm) => goodputs[arm][at] > 0).map((arm) => [chip(arm), text(goodputs[arm][at])]);
    return [...rows, ["All", text(arms.reduce((sum, arm) => sum + goodputs[arm][at], 0))]];
  });
  return {
    place: chart.place,
    close: () => chart.close(),
    /** `goodput` is a list for each arm. The lowest arm is drawn last, over those that are stacked on it. */
    show(time, goodput, label) {
      arms = Object.keys(goodput).sort();
      goodputs = goodput;
      const below = time.map(() => 0);
      const sums = arms.map((arm) => goodput[arm].map((value, i) => (below[i] += value)));
      const data = [time, ...sums.reverse()];
      if (drawn !== arms.join() && chart.plot) {
        chart.plot.destroy();
        chart.plot = null;
      }
      drawn = arms.join();
      chart.show(data, label);
    },
  };
}

/** One quantity of one flow over the arms that it ran. `text` writes a value; `named`: the arms' names stand in it. */
export function armChart(name, height, text, named = false) {
  let arms = [];
  const chart = new Chart(name, height, () => ({
    axes: axes(),
    cursor: { ...cursor, sync: { key: "flow" } },
    scales: { x: recent, y: named ? fromZeroBelowNames : fromZero },
    series: [{}, { stroke: token("ink"), width: 1.8, points: { show: false } }],
    hooks: { drawClear: [(plot) => bands(plot, arms, named)] },
  }), (at) => [[arms[at] === null ? "no arm" : chip(arms[at]), text(chart.data[1][at])]]);
  return {
    place: chart.place,
    close: () => chart.close(),
    show(time, values, arm, label) {
      arms = arm;
      chart.show([time, values], label);
    },
  };
}

/** The stretches of one arm: [{arm, from, to}], `to` is where the next begins. */
export function stretches(arms) {
  const found = [];
  arms.forEach((arm, at) => {
    if (!found.length || found.at(-1).arm !== arm) found.push({ arm, from: at, to: at });
    found.at(-1).to = Math.min(at + 1, arms.length - 1);
  });
  return found;
}

function bands(plot, arms, named) {
  const { ctx, bbox } = plot;
  const strip = 5 * devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const { arm, from, to } of stretches(arms)) {
    if (arm === null) continue;
    const left = Math.max(plot.valToPos(plot.data[0][from], "x", true), bbox.left);
    const width = Math.max(plot.valToPos(plot.data[0][to], "x", true) - left, devicePixelRatio);
    ctx.fillStyle = colour(arm);
    ctx.globalAlpha = 0.16;
    ctx.fillRect(left, bbox.top, width, bbox.height);
    ctx.globalAlpha = 1;
    ctx.fillRect(left, bbox.top, width, strip);
    ctx.font = `600 ${11 * devicePixelRatio}px system-ui, sans-serif`;
    if (named && ctx.measureText(arm).width + 8 * devicePixelRatio < width) {
      ctx.textBaseline = "top";
      ctx.textAlign = "left";
      ctx.fillText(arm, left + 4 * devicePixelRatio, bbox.top + strip + 3 * devicePixelRatio);
    }
  }
  ctx.restore();
}

/** A flow's last minute: a line of its goodput over a band of its arms. */
export function spark(canvas, past) {
  const scale = devicePixelRatio;
  const [width, height] = [canvas.clientWidth * scale, canvas.clientHeight * scale];
  if (!width || !past?.time.length) return;
  canvas.width = width;
  canvas.height = height;
  const ctx = canvas.getContext("2d");
  const [band, last] = [6 * scale, past.time.length - 1];
  const most = Math.max(...past.goodput_mbps, 1e-9);
  const x = (at) => width - ((last - at) / 59) * width;
  const y = (value) => (height - band - 3 * scale) * (1 - value / most) + scale;
  for (const { arm, from, to } of stretches(past.arm)) {
    ctx.fillStyle = colour(arm);
    ctx.fillRect(x(from), height - band, Math.max(x(to) - x(from), scale), band);
    ctx.globalAlpha = 0.14;
    ctx.fillRect(x(from), 0, Math.max(x(to) - x(from), scale), height - band);
    ctx.globalAlpha = 1;
  }
  ctx.beginPath();
  past.goodput_mbps.forEach((value, at) => ctx.lineTo(x(at), y(value)));
  ctx.strokeStyle = token("ink");
  ctx.lineWidth = 1.4 * scale;
  ctx.lineJoin = "round";
  ctx.stroke();
}
