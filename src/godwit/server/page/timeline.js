// The timeline of reconfigurations. One is opened: its cause and reason, phases, contexts, state and keys that moved, and
// what was where before and after.

import { call } from "./api.js";
import { $, bytes, make, ms } from "./dom.js";
import { DurationPlot } from "./plots.js";

const PHASES = { plan: "#8a3ffc", publish: "#0b6bcb", acknowledge: "#1d7f43", commit: "#00848c", revert: "#c0262d", state: "#e0a100" };
const SHOWN = 100;
// how many of the newest are shown below the map
const NEWEST = 4;
// who decides without being asked: admission and the optimiser say why
const DECIDED = /admission|optimis|re-place|suspended|resumed/i;

export class Timeline {
  constructor() {
    this.stories = new Map();
    this.filter = "all";
    this.plot = new DurationPlot($("#durations"));
    this.waiting = false;
    for (const button of document.querySelectorAll("[data-filter]")) button.addEventListener("click", () => {
      this.filter = button.dataset.filter;
      for (const other of document.querySelectorAll("[data-filter]")) other.setAttribute("aria-pressed", String(other === button));
      this.draw();
    });
  }

  async load() {
    for (const story of await call("GET", "/v1/history?limit=300").catch(() => [])) this.remember(story);
    this.draw();
  }

  remember(story) {
    const known = this.stories.get(story.number);
    this.stories.set(story.number, { ...story, at: known ? known.at : story.at });
    if (this.stories.size > 2000) this.stories.delete(this.stories.keys().next().value);
  }

  add(story) {
    this.remember(story);
    if (this.waiting) return;
    this.waiting = true;  // (many may come at once)
    setTimeout(() => { this.waiting = false; this.draw(); }, 150);
  }

  draw() {
    this.drawNewest();
    if ($("#timeline").hidden) return;
    const all = [...this.stories.values()];
    const stories = all.filter((s) => this.filter === "all" || (this.filter === "state" ? s.migrations.length || (s.keys || []).length : s.outcome === "declined" || DECIDED.test(s.cause) || Object.keys(s.parked || {}).length));
    this.plot.show(stories);
    const list = $("#stories");
    const there = new Map([...list.children].map((entry) => [entry.dataset.number, entry]));
    const wanted = stories.slice(-SHOWN).reverse();
    wanted.forEach((story, place) => {
      let entry = there.get(String(story.number));
      there.delete(String(story.number));
      const version = JSON.stringify(story);
      if (!entry || entry.version !== version) {
        const made = this.item(story, entry ? entry.querySelector("details").open : false);
        made.version = version;
        if (entry) entry.replaceWith(made);
        entry = made;
      }
      if (list.children[place] !== entry) list.insertBefore(entry, list.children[place] || null);
    });
    for (const entry of there.values()) entry.remove();
  }

  // The last few, in a line each
  drawNewest() {
    const lines = [...this.stories.values()].slice(-NEWEST).map((story) => make("li", { className: story.outcome, textContent: `${figures(story)}: ${story.cause}` }));
    $("#newest").replaceChildren(...lines);
  }

  item(story, open) {
    const outcome = make("span", { className: `outcome ${story.outcome}`, textContent: story.outcome });
    const told = make("span", { className: "figures", textContent: figures(story) });
    const summary = make("summary", {}, `${new Date(story.at * 1000).toLocaleTimeString("en-GB")}  #${story.number} `, outcome, " ", told, make("div", { className: "cause", textContent: story.cause }));
    const inside = make("div");
    const details = make("details", { open }, summary, inside);
    details.addEventListener("toggle", () => details.open && this.fill(inside, story));
    if (open) this.fill(inside, story);
    const entry = make("li", {}, details);
    entry.dataset.number = story.number;
    return entry;
  }

  async fill(inside, story) {
    inside.replaceChildren(this.bar(story), make("pre", { textContent: this.lines(story).join("\n") }));
    const told = await call("GET", `/v1/history/${story.number}`).catch(() => null);
    if (!told) return;
    const moved = told.moved === null ? ["what was where is not kept any more"] : told.moved.length ? told.moved.slice(0, 200).map((m) => `${m.what}: ${m.before || "-"} -> ${m.after || "-"}`) : ["nothing moved"];
    inside.append(make("h3", { textContent: "before and after" }), make("pre", { className: "moved", textContent: moved.join("\n") }));
  }

  bar(story) {
    const phases = Object.entries(story.phases || {});
    const all = phases.reduce((sum, [, s]) => sum + s, 0) || 1;
    const bar = make("div", { className: "bar", title: phases.map(([phase, s]) => `${phase} ${ms(1000 * s)}`).join(", ") });
    for (const [phase, seconds] of phases) {
      const part = make("span");
      part.style.width = `${(100 * seconds) / all}%`;
      part.style.background = PHASES[phase] || "#888";
      bar.append(part);
    }
    return bar;
  }

  lines(story) {
    const lines = [`cause      ${story.cause}`, `queries    ${story.queries.join(", ") || "none"}`, `epochs     ${story.epochs.join(", ")}`, ...Object.entries(story.contexts || {}).map(([kind, n]) => `context    ${n} ${kind}`)];
    if (story.reason) lines.splice(1, 0, `because    ${story.reason}`);
    for (const [query, why] of Object.entries(story.parked || {})) lines.push(`suspended  ${query}: ${why}`);
    for (const m of story.migrations) lines.push(`state      ${m.instance}: ${m.source || "lost"} -> ${m.target}, ${m.bytes == null ? "size not known" : bytes(m.bytes)}${m.seconds == null ? "" : ` in ${ms(1000 * m.seconds)}`}, ${m.step}`);
    for (const k of story.keys || []) lines.push(`keys       ${k.instance} ${k.keys}: ${k.phase} ${k.source ? `${k.source} -> ${k.target}` : "all regions"}${k.bytes == null ? "" : `, ${bytes(k.bytes)}`}${k.seconds == null ? "" : ` in ${ms(1000 * k.seconds)}`}`);
    for (const [phase, seconds] of Object.entries(story.phases || {})) lines.push(`${phase.padEnd(10)} ${ms(1000 * seconds)}`);
    return lines;
  }
}

// How long it took, and how much state has moved
function figures(story) {
  const took = 1000 * Object.values(story.phases || {}).reduce((a, b) => a + b, 0);
  const size = [...story.migrations, ...(story.keys || [])].reduce((sum, m) => sum + (m.bytes || 0), 0);
  return `${ms(took)}${size ? `, ${bytes(size)} of state` : ""}`;
}
