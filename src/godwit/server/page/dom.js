// Small helpers: find, make, and fill without building what is there already.

export const $ = (selector, within = document) => within.querySelector(selector);

export function make(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// Set the cells of a row; what has not changed is left alone.
export function fill(row, cells) {
  cells.forEach((text, i) => { if (row.children[i].textContent !== String(text)) row.children[i].textContent = text; });
}

// One row per entry ([key, cells]); `numbers`: columns that are numbers. Rows are kept, added and removed by key.
export function table(body, entries, numbers = [], made = () => {}) {
  const there = new Map([...body.children].map((row) => [row.dataset.key, row]));
  entries.forEach(([key, cells], place) => {
    let row = there.get(key);
    there.delete(key);
    if (!row) {
      row = make("tr", {}, ...cells.map((_, i) => make("td", { className: numbers.includes(i) ? "n" : "" })));
      row.dataset.key = key;
      made(row, key);
    }
    fill(row, cells);
    if (body.children[place] !== row) body.insertBefore(row, body.children[place] || null);
  });
  for (const row of there.values()) row.remove();
}

export const bytes = (n) => (n == null ? "-" : n < 1000 ? `${n} B` : n < 1e6 ? `${(n / 1e3).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`);
export const ms = (n) => (n == null ? "-" : n < 10 ? `${n.toFixed(1)} ms` : `${n.toFixed(0)} ms`);
