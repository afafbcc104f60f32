// The page: asks the server once per second, follows reconfigurations live, and draws what has changed.

import { call, follow } from "./api.js";
import { Graph } from "./graph.js";
import { DurationPlot, LatencyPlot } from "./plots.js";

const $ = (selector) => document.querySelector(selector);
const state = { stories: new Map(), rows: new Map(), chosen: null, live: null, at: 0 };

const graph = new Graph($("#graph"), (node) => {
  $("#selected").textContent = node.kind === "site" ? `site ${node.name} in region ${node.region}` : `device ${node.name} at ${node.site || "no site"}`;
});
const latency = new LatencyPlot($("#latency"));
const durations = new DurationPlot($("#durations"));

// --- tabs and theme

for (const tab of document.querySelectorAll("nav button")) tab.addEventListener("click", () => show(tab.dataset.tab));

function show(name) {
  for (const tab of document.querySelectorAll("nav button")) tab.setAttribute("aria-selected", String(tab.dataset.tab === name));
  for (const panel of document.querySelectorAll(".tab")) panel.hidden = panel.id !== name;
  if (name === "timeline") drawStories();
}

function theme(wanted) {
  document.documentElement.dataset.theme = wanted;
  localStorage.setItem("godwit-theme", wanted);
}
theme(localStorage.getItem("godwit-theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
const otherTheme = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
$("#theme").addEventListener("click", otherTheme);
document.addEventListener("keydown", (event) => {
  if (/INPUT|TEXTAREA/.test(event.target.tagName)) return;
  if (event.key === "t") otherTheme();
  const tabs = { 1: "queries", 2: "timeline", 3: "ask" };
  if (tabs[event.key]) show(tabs[event.key]);
});

// --- queries

function drawQueries(status) {
  const now = Date.now() / 1000;
  const body = $("#query-rows");
  const known = new Set();
  for (const query of status.queries.filter((q) => !q.shared_by.length)) {
    known.add(query.name);
    let row = body.querySelector(`tr[data-query="${CSS.escape(query.name)}"]`);
    if (!row) {
      row = document.createElement("tr");
      row.dataset.query = query.name;
      row.tabIndex = 0;
      row.append(...Array.from({ length: 5 }, () => document.createElement("td")));
      row.addEventListener("click", () => choose(query.name));
      row.addEventListener("keydown", (event) => event.key === "Enter" && choose(query.name));
      body.append(row);
    }
    const before = state.rows.get(query.name);
    const rate = before && now > before.at ? (query.rows_out - before.rows) / (now - before.at) : 0;
    state.rows.set(query.name, { rows: query.rows_out, at: now });
    const note = query.failed ? `failed: ${query.failed}` : query.parked ? `suspended: ${query.parked}` : "";
    const cells = [query.name, query.rows_out, rate.toFixed(1), query.clock_lag_s == null ? "-" : `${query.clock_lag_s} s`, note];
    [...row.children].forEach((cell, i) => { if (cell.textContent !== String(cells[i])) cell.textContent = cells[i]; });
    row.classList.toggle("chosen", query.name === state.chosen);
  }
  for (const row of [...body.children]) if (!known.has(row.dataset.query)) row.remove();
  $("#query-count").textContent = known.size;
}

async function choose(name) {
  state.chosen = name;
  if (state.live) state.live.close();
  const detail = $("#query-detail");
  try {
    const told = await call("GET", `/v1/queries/${encodeURIComponent(name)}/explain`);
    detail.hidden = false;
    detail.querySelector("h2").textContent = name;
    const places = Object.entries(told.placement).map(([instance, site]) => `${instance}  ->  ${site}`);
    detail.querySelector(".plan").textContent = `${told.plan}\n\n${places.join("\n")}`;
    graph.mark(told.placement);
    const results = detail.querySelector(".results");
    results.textContent = "";
    state.live = follow(`/v1/queries/${encodeURIComponent(name)}/live`, "rows", (message) => {
      const lines = message.rows.map((row) => JSON.stringify(row));
      results.textContent = [...lines, ...results.textContent.split("\n")].slice(0, 50).join("\n");
    });
  } catch (fault) {
    detail.hidden = true;
  }
}
$("#query-detail .withdraw").addEventListener("click", () => answer(async () => {
  const told = await call("DELETE", `/v1/queries/${encodeURIComponent(state.chosen)}`);
  $("#query-detail").hidden = true;
  return `withdrawn (epoch ${told.epoch})`;
}));

// --- the timeline of reconfigurations

function remember(story) {
  const known = state.stories.get(story.number);
  state.stories.set(story.number, { ...story, at: known ? known.at : story.at });
  if (state.stories.size > 2000) state.stories.delete(state.stories.keys().next().value);
}

function drawStories() {
  if ($("#timeline").hidden) return;
  const stories = [...state.stories.values()];
  durations.show(stories);
  const list = $("#stories");
  const open = new Set([...list.querySelectorAll("details[open]")].map((d) => d.dataset.number));
  list.replaceChildren(...stories.slice(-100).reverse().map((s) => item(s, open.has(String(s.number)))));
}

function item(story, open) {
  const entry = document.createElement("li");
  const details = document.createElement("details");
  details.dataset.number = story.number;
  details.open = open;
  const summary = document.createElement("summary");
  const outcome = Object.assign(document.createElement("span"), { className: `outcome ${story.outcome}`, textContent: story.outcome });
  const took = 1000 * Object.values(story.phases || {}).reduce((a, b) => a + b, 0);
  const bytes = story.migrations.reduce((sum, m) => sum + (m.bytes || 0), 0);
  summary.append(`${new Date(story.at * 1000).toLocaleTimeString()}  #${story.number} `, outcome, `  ${story.cause}  ${took.toFixed(1)} ms  ${bytes} bytes`);
  const inside = document.createElement("pre");
  const lines = [`queries    ${story.queries.join(", ") || "none"}`, `epochs     ${story.epochs.join(", ")}`, ...Object.entries(story.contexts || {}).map(([k, n]) => `context    ${n} ${k}`)];
  for (const m of story.migrations) lines.push(`state      ${m.instance}: ${m.source || "lost"} -> ${m.target}, ${m.bytes == null ? "size not known" : `${m.bytes} bytes`}${m.seconds == null ? "" : ` in ${(1000 * m.seconds).toFixed(1)} ms`}`);
  for (const [phase, seconds] of Object.entries(story.phases || {})) lines.push(`${phase.padEnd(10)} ${(1000 * seconds).toFixed(1)} ms`);
  if (story.reason) lines.push(`because    ${story.reason}`);
  inside.textContent = lines.join("\n");
  details.append(summary, inside);
  entry.append(details);
  return entry;
}

// --- asking and changing

async function answer(act) {
  const box = $("#answer");
  box.classList.remove("error");
  try {
    box.textContent = await act();
  } catch (fault) {
    box.classList.add("error");
    box.textContent = fault.message;
  }
}
const sql = () => $("#sql").value;
const name = () => $("#name").value;
const changes = () => $("#change").value.split("\n").filter((line) => line.trim());
const columns = (told) => told.columns.map((c) => `${c.name} ${c.type}`).join(", ");
$("#explain").addEventListener("click", () => answer(async () => { const told = await call("POST", "/v1/explain", { sql: sql() }); return `${told.plan}\ncolumns: ${columns(told)}`; }));
$("#submit").addEventListener("click", () => answer(async () => `runs since epoch ${(await call("POST", "/v1/queries", { name: name(), sql: sql() })).epoch}`));
$("#alter").addEventListener("click", () => answer(async () => `altered in epoch ${(await call("PATCH", `/v1/queries/${encodeURIComponent(name())}`, { sql: sql() })).epoch}`));
$("#what-if").addEventListener("click", () => answer(async () => (await call("POST", "/v1/changes?dry_run=true", { changes: changes() })).explanation));
$("#apply").addEventListener("click", () => answer(async () => `changed in epoch ${(await call("POST", "/v1/changes", { changes: changes() })).epoch}`));

// --- once per second

function connected(fine) {
  $("#connection").textContent = fine ? "live" : "not connected";
  $("#connection").className = `badge ${fine ? "good" : "bad"}`;
}

async function look() {
  try {
    const [topology, status] = await Promise.all([call("GET", "/v1/topology"), call("GET", "/v1/status")]);
    graph.show(topology);
    $("#epoch").textContent = status.epoch;
    $("#device-count").textContent = topology.devices.length;
    drawQueries(status);
    latency.add(status);
    connected(true);
  } catch (fault) {
    connected(false);
  }
}

for (const story of await call("GET", "/v1/history?limit=300").catch(() => [])) remember(story);
follow("/v1/events", "reconfiguration", (story) => { remember(story); drawStories(); });
await look();
setInterval(look, 1000);
