// The table of queries, and the chosen one: what it waits for, its plan over the sites, keys, newest results.

import { Refused, call, follow } from "./api.js";
import { $, bytes, make, table } from "./dom.js";
import { Results } from "./results.js";

const path = (name) => `/v1/queries/${encodeURIComponent(name)}`;
const SHOWN = 50;

export class Queries {
  constructor(ground, edit) {
    this.ground = ground;
    this.rows = new Map();
    this.chosen = null;
    this.live = null;
    this.status = null;
    this.detail = $("#query-detail");
    this.results = new Results($(".results", this.detail));
    $(".withdraw", this.detail).addEventListener("click", () => this.withdraw());
    $(".edit", this.detail).addEventListener("click", () => edit(this.chosen, this.sql));
  }

  draw(status) {
    this.status = status;
    const now = Date.now() / 1000;
    const shown = status.queries.filter((q) => !q.name.startsWith("part:"));
    const latency = new Map();
    for (const r of status.runners) {
      const worst = latency.get(r.shape) || {};
      latency.set(r.shape, { p50: Math.max(worst.p50 || 0, r.latency_ms.p50 || 0), p95: Math.max(worst.p95 || 0, r.latency_ms.p95 || 0) });
    }
    const entries = shown.map((query) => {
      const before = this.rows.get(query.name);
      const rate = before && now > before.at ? (query.rows_out - before.rows) / (now - before.at) : 0;
      this.rows.set(query.name, { rows: query.rows_out, at: now });
      const took = latency.get(query.shape) || {};
      const note = query.failed ? `failed: ${query.failed}` : query.parked ? `suspended: ${query.parked}` : query.shared_by.length ? `shares with ${query.shared_by.join(", ")}` : "";
      return [query.name, [query.name, query.rows_out, rate.toFixed(1), took.p95 ? `${took.p50.toFixed(0)} / ${took.p95.toFixed(0)} ms` : "-", query.clock_lag_s == null ? "-" : `${query.clock_lag_s.toFixed(1)} s`, note]];
    });
    table($("#query-rows"), entries, [1, 2, 3, 4], (row, name) => {
      row.dataset.query = name;
      row.tabIndex = 0;
      row.addEventListener("click", () => this.choose(name));
      row.addEventListener("keydown", (event) => event.key === "Enter" && this.choose(name));
    });
    const ill = new Set(shown.filter((q) => q.failed || q.parked).map((q) => q.name));
    for (const row of $("#query-rows").children) {
      row.classList.toggle("chosen", row.dataset.query === this.chosen);
      row.classList.toggle("ill", ill.has(row.dataset.query));
    }
    $("#query-count").textContent = shown.length;
    $("#rate").textContent = entries.reduce((sum, [, cells]) => sum + Number(cells[2]), 0).toFixed(0);
    this.drawState(status);
    if (this.chosen && !shown.some((q) => q.name === this.chosen)) this.leave();
  }

  // What each site holds: what instances that are placed there hold of their queries
  drawState(status) {
    const sites = new Map();
    for (const one of status.state) {
      const key = `${one.site}/${one.region}`;
      const sum = sites.get(key) || { site: one.site, region: one.region, rows: 0, bytes: 0, count: 0 };
      sites.set(key, { ...sum, rows: sum.rows + one.rows, bytes: sum.bytes + one.bytes, count: sum.count + 1 });
    }
    const entries = [...sites].sort().map(([key, s]) => [key, [s.site, s.region, s.rows, bytes(s.bytes), s.count]]);
    table($("#state tbody"), entries, [2, 3, 4]);
  }

  next(step) {
    const rows = [...$("#query-rows").children];
    if (!rows.length) return;
    const at = rows.findIndex((row) => row.dataset.query === this.chosen);
    const row = rows[(at + step + rows.length) % rows.length];
    row.focus();
    this.choose(row.dataset.query);
  }

  async choose(name) {
    this.chosen = name;
    if (this.live) this.live.close();
    this.results.clear();
    await this.refresh();
    if (this.detail.hidden || this.chosen !== name) return;
    this.earlier(name);
    this.live = follow(`${path(name)}/live`, "rows", (message) => this.results.add(message.rows));
    for (const row of $("#query-rows").children) row.classList.toggle("chosen", row.dataset.query === name);
  }

  // What was there before it was chosen
  async earlier(name) {
    try {
      const found = await call("GET", `${path(name)}/results?newest=true&limit=${SHOWN}`);
      if (this.chosen === name) this.results.addEarlier(found.rows);
    } catch (fault) {
      if (!(fault instanceof Refused)) throw fault;
    }
  }

  leave() {
    if (this.live) this.live.close();
    this.chosen = this.live = null;
    this.detail.hidden = true;
    this.ground.mark(null);
  }

  async refresh() {
    const name = this.chosen;
    if (!name) return;
    try {
      const [told, query] = await Promise.all([call("GET", `${path(name)}/explain`), call("GET", path(name))]);
      if (this.chosen !== name) return;
      this.sql = query.sql;
      this.detail.hidden = false;
      $("h2", this.detail).textContent = name;
      $(".plan", this.detail).textContent = told.plan;
      $(".waits", this.detail).replaceChildren(...(told.waits_for.length ? told.waits_for : ["nothing"]).map((text) => make("li", { textContent: text })));
      this.drawInstances(told);
      this.drawKeys(query.runs_as);
      this.ground.mark(told);
    } catch (fault) {
      if (fault instanceof Refused) this.leave();  // (otherwise the server is away for a moment)
    }
  }

  drawInstances(told) {
    const held = new Map((this.status ? this.status.state : []).map((s) => [s.instance, s]));
    const entries = told.operators.map((operator) => {
      const mine = Object.entries(told.placement).filter(([instance]) => Number(instance.replace(/@.*$/, "").replace(/^.*\//, "")) === operator.number);
      const places = mine.length > 8 ? `${mine.length} instances on ${[...new Set(mine.map(([, site]) => site))].join(", ")}` : mine.map(([instance, site]) => `${instance.includes("@") ? `${instance.replace(/^.*@/, "")}: ` : ""}${site}`).join(", ");
      const state = mine.map(([instance]) => held.get(instance)).filter(Boolean).reduce((sum, s) => ({ rows: sum.rows + s.rows, bytes: sum.bytes + s.bytes }), { rows: 0, bytes: 0 });
      return [String(operator.number), [`${operator.number} ${operator.kind}`, places || "-", state.rows ? `${state.rows} rows, ${bytes(state.bytes)}` : "-"]];
    });
    table($(".instances tbody", this.detail), entries, [2]);
  }

  drawKeys(execution) {
    const mine = (this.status ? this.status.routes : []).filter((route) => route.instance.startsWith(`${execution}/`));
    $(".keys", this.detail).hidden = !mine.length;
    const entries = mine.map((r) => [`${r.instance} ${r.keys}`, [r.instance.replace(/^.*\//, ""), r.keys, `${r.site} (${r.region})${r.copies.length ? `, copied to ${r.copies.join(", ")}` : ""}`, r.count ?? "-", r.hottest.map(([key, share]) => `${key} ${(100 * share).toFixed(0)} %`).join(", ")]]);
    table($(".routes tbody", this.detail), entries, [3]);
  }

  async withdraw() {
    const note = $("h2", this.detail);
    try {
      await call("DELETE", path(this.chosen));
      this.leave();
    } catch (fault) {
      note.textContent = `${this.chosen}: ${fault.message}`;
    }
  }
}

