// Two plots: latency over time per region, and the time that reconfigurations took.

import uPlot from "./vendor/uplot.js";

const KEEP = 300;
const COLOURS = ["#0b6bcb", "#c2571a", "#1d7f43", "#8a3ffc", "#b5179e", "#00848c"];

export class LatencyPlot {
  constructor(element) {
    this.element = element;
    this.times = [];
    this.lines = new Map();
    this.plot = null;
  }

  add(status) {
    this.times.push(Date.now() / 1000);
    const now = new Map();
    for (const r of status.runners) if (r.latency_ms.p95 != null) now.set(r.region, Math.max(now.get(r.region) || 0, r.latency_ms.p95));
    const before = this.lines.size;
    for (const region of now.keys()) if (!this.lines.has(region)) this.lines.set(region, Array(this.times.length - 1).fill(null));
    for (const [region, values] of this.lines) values.push(now.has(region) ? now.get(region) : null);
    if (this.times.length > KEEP) {
      this.times.shift();
      for (const values of this.lines.values()) values.shift();
    }
    if (!this.plot || before !== this.lines.size) this.make();
    else this.plot.setData([this.times, ...this.lines.values()]);
  }

  make() {
    if (this.plot) this.plot.destroy();
    const series = [...this.lines.keys()].map((region, i) => ({ label: region, stroke: COLOURS[i % COLOURS.length], width: 1.5, value: (u, v) => (v == null ? "-" : `${v.toFixed(0)} ms`) }));
    this.plot = new uPlot(options(this.element, "latency p95 (ms)", [{}, ...series]), [this.times, ...this.lines.values()], this.element);
  }
}

export class DurationPlot {
  constructor(element) {
    this.element = element;
    this.plot = null;
  }

  show(stories) {
    const kept = stories.filter((s) => s.phases).slice(-KEEP);
    const data = [kept.map((s) => s.at), kept.map((s) => 1000 * Object.values(s.phases).reduce((a, b) => a + b, 0)), kept.map((s) => s.migrations.reduce((sum, m) => sum + (m.bytes || 0), 0))];
    if (this.plot) return this.plot.setData(data);
    const series = [{}, { label: "ms", stroke: COLOURS[0], points: { show: true, size: 5 }, paths: () => null }, { label: "bytes of state", stroke: COLOURS[1], scale: "bytes", points: { show: true, size: 4 }, paths: () => null }];
    this.plot = new uPlot({ ...options(this.element, "reconfigurations", series), axes: [axis(), wide(), { ...wide(), scale: "bytes", side: 1 }] }, data, this.element);
  }
}

const axis = () => ({ stroke: "#8a94a3", grid: { stroke: "#8a94a333" }, ticks: { stroke: "#8a94a355" } });
// room for numbers of five digits
const wide = () => ({ ...axis(), size: 64 });

function options(element, title, series) {
  return { title, width: Math.max(280, element.clientWidth - 8), height: 180, series, axes: [axis(), wide()], legend: { live: true } };
}
