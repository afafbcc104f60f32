// Two plots: latency over time per region, and the time that reconfigurations took.

import uPlot from "./vendor/uplot.js";

const KEEP = 300;
const COLOURS = ["#0b6bcb", "#c2571a"];

export class LatencyPlot {
  // `colour`: of a region, as on the map
  constructor(element, colour) {
    this.element = element;
    this.colour = colour;
    this.times = [];
    this.lines = new Map();
    this.plot = null;
    keepWidth(element, this);
  }

  // p50 and p95 of the last minute, per region: the slowest of its shapes
  add(status) {
    this.times.push(Date.now() / 1000);
    const now = new Map();
    for (const r of status.runners) {
      for (const part of ["p50", "p95"]) if (r.latency_ms[part] != null) now.set(`${r.region} ${part}`, Math.max(now.get(`${r.region} ${part}`) || 0, r.latency_ms[part]));
    }
    const before = this.lines.size;
    for (const line of now.keys()) if (!this.lines.has(line)) this.lines.set(line, Array(this.times.length - 1).fill(null));
    for (const [line, values] of this.lines) values.push(now.has(line) ? now.get(line) : null);
    if (this.times.length > KEEP) {
      this.times.shift();
      for (const values of this.lines.values()) values.shift();
    }
    if (!this.plot || before !== this.lines.size) this.make();
    else if (this.element.clientWidth) this.plot.setData([this.times, ...this.lines.values()]);
  }

  make() {
    if (this.plot) this.plot.destroy();
    const series = [...this.lines.keys()].map((line) => ({ label: line, stroke: this.colour(line.slice(0, -4)), width: 1.5, points: { show: false }, dash: line.endsWith("p50") ? [4, 4] : undefined, value: (u, v) => (v == null ? "-" : `${v.toFixed(0)} ms`) }));
    const all = options(this.element, "latency over the last minute (ms): p95, and p50 dashed", [{}, ...series]);
    // a logarithmic scale: milliseconds and the seconds of a first plan's compilation are both readable
    all.scales.y = { distr: 3, range: (u, low, high) => [10 ** Math.floor(Math.log10(Math.max(low || 1, 1))), 10 ** Math.ceil(Math.log10(Math.max(high || 10, 10)))] };
    all.axes[1].splits = (u, axis, low, high) => Array.from({ length: Math.round(Math.log10(high / low)) + 1 }, (_, i) => low * 10 ** i);
    all.axes[1].values = (u, splits) => splits.map((ms) => ms.toLocaleString("en"));
    this.plot = new uPlot(all, [this.times, ...this.lines.values()], this.element);
  }
}

export class DurationPlot {
  constructor(element) {
    this.element = element;
    this.plot = null;
    keepWidth(element, this);
  }

  show(stories) {
    const kept = stories.filter((s) => Object.keys(s.phases || {}).length).slice(-KEEP);
    const data = [kept.map((s) => s.at), kept.map((s) => 1000 * Object.values(s.phases).reduce((a, b) => a + b, 0)), kept.map((s) => s.migrations.reduce((sum, m) => sum + (m.bytes || 0), 0))];
    if (this.plot) return this.plot.setData(data);
    const series = [{}, { label: "ms", stroke: COLOURS[0], points: { show: true, size: 5 }, paths: () => null }, { label: "bytes of state", stroke: COLOURS[1], scale: "bytes", points: { show: true, size: 4 }, paths: () => null }];
    this.plot = new uPlot({ ...options(this.element, "reconfigurations: ms (blue), bytes of state (orange)", series), axes: [{ ...axis(), values: clock, space: 80 }, wide(), { ...wide(), scale: "bytes", side: 1, grid: { show: false } }] }, data, this.element);
  }
}

const clock = (u, splits) => splits.map((at) => new Date(1000 * at).toLocaleTimeString("en-GB"));
const axis = () => ({ stroke: "#8a94a3", grid: { stroke: "#8a94a333" }, ticks: { stroke: "#8a94a355" } });
// room for numbers of five digits
const wide = () => ({ ...axis(), size: 64 });

const width = (element) => Math.max(280, element.clientWidth - 8);

function options(element, title, series) {
  return { title, width: width(element), height: 170, series, axes: [{ ...axis(), values: clock, space: 80 }, wide()], scales: { y: { range: (u, low, high) => [0, high > 0 ? 1.1 * high : 1] } }, legend: { show: false } };
}

function keepWidth(element, owner) {
  new ResizeObserver(() => { if (owner.plot && element.clientWidth) owner.plot.setSize({ width: width(element), height: 170 }); }).observe(element);
}
