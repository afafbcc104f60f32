// The newest results of the chosen query as a table: those that were there when it was chosen, and those that come since.

import { $, make } from "./dom.js";

const SHOWN = 50;

export class Results {
  constructor(element) {
    this.element = element;
    this.clear();
  }

  clear() {
    this.columns = [];
    this.lines = new Set(); // (rows that are shown, as text)
    $("thead tr", this.element).replaceChildren();
    $("tbody", this.element).replaceChildren();
  }

  // Rows that have just come, oldest first: they go on top.
  add(rows) {
    for (const row of rows) this.insert(row, (line) => $("tbody", this.element).prepend(line));
    const body = $("tbody", this.element);
    while (body.children.length > SHOWN) body.lastChild.remove();
  }

  // Rows from before, oldest first: below those that came while they were read, and not twice.
  addEarlier(rows) {
    const come = new Set(this.lines);
    for (const row of [...rows].reverse()) {
      if ($("tbody", this.element).children.length >= SHOWN) return;
      if (!come.has(JSON.stringify(row))) this.insert(row, (line) => $("tbody", this.element).append(line));
    }
  }

  insert(row, place) {
    const names = Object.keys(row);
    if (names.some((name) => !this.columns.includes(name))) this.setColumns([...new Set([...this.columns, ...names])]);
    this.lines.add(JSON.stringify(row));
    if (this.lines.size > 20 * SHOWN) this.lines = new Set([...this.lines].slice(-SHOWN));
    place(make("tr", {}, ...this.columns.map((name) => make("td", { className: typeof row[name] === "number" ? "n" : "", textContent: text(row[name]) }))));
  }

  setColumns(names) {
    for (const line of $("tbody", this.element).children) for (let i = this.columns.length; i < names.length; i += 1) line.append(make("td"));
    this.columns = names;
    $("thead tr", this.element).replaceChildren(...names.map((name) => make("th", { textContent: name })));
  }
}

const text = (value) => (value == null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));
