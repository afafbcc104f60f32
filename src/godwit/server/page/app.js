// The page: asks the server once per second, follows reconfigurations live, and draws what has changed.

import { call, follow } from "./api.js";
import { $ } from "./dom.js";
import { Ground } from "./ground.js";
import { LatencyPlot } from "./plots.js";
import { Queries } from "./queries.js";
import { Timeline } from "./timeline.js";

const ground = new Ground($("#map-panel"), $("#legend"), (node) => {
  $("#selected").textContent = node.kind === "site" ? `site ${node.name} in region ${node.region}${node.lat == null ? "" : ` at ${node.lat}, ${node.lon}`}` : `device ${node.name} at ${node.site || "no site"}`;
});
const latency = new LatencyPlot($("#latency"), (region) => ground.colour(region));
const timeline = new Timeline();
globalThis.godwit = { ground }; // (for whoever looks into a running page)
const queries = new Queries(ground, (name, text) => {
  show("ask");
  $("#name").value = name;
  $("#sql").value = text;
  $("#sql").focus();
});

// --- tabs, theme and keys

for (const tab of document.querySelectorAll("nav button")) tab.addEventListener("click", () => show(tab.dataset.tab));

function show(name) {
  for (const tab of document.querySelectorAll("nav button")) tab.setAttribute("aria-selected", String(tab.dataset.tab === name));
  for (const panel of document.querySelectorAll(".tab")) panel.hidden = panel.id !== name;
  timeline.draw();
}

function theme(wanted) {
  document.documentElement.dataset.theme = wanted;
  localStorage.setItem("godwit-theme", wanted);
  ground.theme();
}
theme(localStorage.getItem("godwit-theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
const otherTheme = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
$("#theme").addEventListener("click", otherTheme);
$("#help-button").addEventListener("click", () => $("#help").showModal());
const KEYS = { t: otherTheme, f: () => ground.fit(), j: () => queries.next(1), k: () => queries.next(-1), "?": () => $("#help").showModal(), 1: () => show("queries"), 2: () => show("timeline"), 3: () => show("ask") };
document.addEventListener("keydown", (event) => {
  if (/INPUT|TEXTAREA/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (KEYS[event.key] && !$("dialog[open]")) KEYS[event.key]();
});

// --- asking and changing

async function answer(act) {
  const box = $("#answer");
  box.classList.remove("error");
  box.textContent = "...";
  try {
    box.textContent = await act();
  } catch (fault) {
    box.classList.add("error");
    box.textContent = fault.message;
  }
}
const sql = () => $("#sql").value;
const name = () => $("#name").value;
const query = () => `/v1/queries/${encodeURIComponent(name())}`;
const changes = () => $("#change").value.split("\n").filter((line) => line.trim());
const columns = (told) => told.columns.map((c) => `${c.name} ${c.type}`).join(", ");
const click = (button, act) => $(button).addEventListener("click", () => answer(act));
click("#explain", async () => { const told = await call("POST", "/v1/explain", { sql: sql() }); return `${told.plan}\ncolumns: ${columns(told)}`; });
click("#submit", async () => `runs since epoch ${(await call("POST", "/v1/queries", { name: name(), sql: sql() })).epoch}`);
click("#alter", async () => `altered in epoch ${(await call("PATCH", query(), { sql: sql() })).epoch}`);
click("#alter-if", async () => { const told = await call("PATCH", `${query()}?dry_run=true`, { sql: sql() }); return told.possible ? `it can be altered, in one epoch\n\n${told.plan}` : `it cannot be altered: ${told.reason}`; });
click("#what-if", async () => (await call("POST", "/v1/changes?dry_run=true", { changes: changes() })).explanation);
click("#apply", async () => `changed in epoch ${(await call("POST", "/v1/changes", { changes: changes() })).epoch}`);

// --- once per second

let lost = false;

function connected(fine) {
  $("#connection").textContent = fine ? "live" : "not connected";
  $("#connection").className = `badge ${fine ? "good" : "bad"}`;
  if (fine && lost) timeline.load();
  lost = !fine;
}

async function look() {
  try {
    const [topology, status] = await Promise.all([call("GET", "/v1/topology"), call("GET", "/v1/status")]);
    ground.show(topology);
    $("#epoch").textContent = status.epoch;
    $("#device-count").textContent = topology.devices.length;
    queries.draw(status);
    latency.add(status);
    connected(true);
  } catch (fault) {
    connected(false);
  }
}

async function always() {
  for (let turn = 0; ; turn += 1) {
    const began = performance.now();
    if (!document.hidden) await look();
    if (turn % 2 && !document.hidden) await queries.refresh();
    await new Promise((done) => setTimeout(done, Math.max(200, 1000 - (performance.now() - began))));
  }
}

await timeline.load();
follow("/v1/events", "reconfiguration", (story) => timeline.add(story), () => timeline.load());
always();
