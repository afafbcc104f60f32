// Sites, links and devices. Where all sites have coordinates it is a map (Web Mercator, with a graticule), otherwise a
// graph. Above it: where the chosen query's rows go.

import cytoscape from "./vendor/cytoscape.js";

const COLOURS = ["#0b6bcb", "#c2571a", "#1d7f43", "#8a3ffc", "#b5179e", "#00848c", "#7a5c00", "#c0262d"];
// more devices than this are not animated one by one
const MANY = 200;
// degrees between two lines of the graticule
const STEPS = [30, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001];

export class Graph {
  constructor(element, canvas, legend, chosen) {
    this.regions = new Map();
    this.canvas = canvas;
    this.legend = legend;
    this.scale = 1;
    this.isMap = false;
    this.placed = new Map();
    this.cy = cytoscape({ container: element, minZoom: 0.02, maxZoom: 8, style: style(), elements: [], textureOnViewport: true, hideEdgesOnViewport: false });
    this.cy.on("tap", "node", (event) => chosen(event.target.data()));
    this.cy.on("pan zoom resize", () => this.drawGrid());
    this.drawing = false;
  }

  colour(region) {
    if (!this.regions.has(region)) {
      this.regions.set(region, COLOURS[this.regions.size % COLOURS.length]);
      this.legend.replaceChildren(...[...this.regions].map(([name, colour]) => {
        const one = document.createElement("span");
        const dot = document.createElement("i");
        dot.style.background = colour;
        one.append(dot, name);
        return one;
      }));
    }
    return this.regions.get(region);
  }

  fit() {
    this.cy.fit(this.cy.nodes("[kind = 'site']"), 60);
  }

  // Sites and links change seldom; devices move all the time and are placed around their site.
  show(topology) {
    const cy = this.cy;
    const wanted = new Set([...topology.sites.map((s) => `site:${s.id}`), ...topology.devices.map((d) => `device:${d.id}`), ...topology.links.map((l) => `link:${l.a}:${l.b}`)]);
    cy.batch(() => {
      cy.elements(":not(.flow)").filter((e) => !wanted.has(e.id())).forEach((e) => { this.placed.delete(e.id()); e.remove(); });
      let grown = false;
      for (const site of topology.sites) {
        if (cy.$id(`site:${site.id}`).length) continue;
        grown = true;
        cy.add({ data: { id: `site:${site.id}`, name: site.id, kind: "site", region: site.region, colour: this.colour(site.region), lat: site.lat, lon: site.lon } });
      }
      for (const link of topology.links) {
        if (!cy.$id(`link:${link.a}:${link.b}`).length) cy.add({ data: { id: `link:${link.a}:${link.b}`, source: `site:${link.a}`, target: `site:${link.b}` } });
      }
      if (grown) this.layOut();
      const at = new Map();
      for (const device of topology.devices) {
        if (!at.has(device.site)) at.set(device.site, []);
        at.get(device.site).push(device);
      }
      for (const [site, devices] of at) this.around(site, devices, topology.devices.length > MANY);
    });
  }

  layOut() {
    const sites = this.cy.nodes("[kind = 'site']");
    this.isMap = sites.length > 1 && sites.every((s) => s.data("lat") != null && s.data("lon") != null);
    if (this.isMap) {
      const xs = sites.map((s) => mercatorX(s.data("lon")));
      const ys = sites.map((s) => mercatorY(s.data("lat")));
      const extent = Math.max(Math.max(...xs) - Math.min(...xs), Math.max(...ys) - Math.min(...ys)) || 1;
      this.scale = (110 * Math.sqrt(sites.length) + 200) / extent;
      sites.positions((s) => ({ x: mercatorX(s.data("lon")) * this.scale, y: mercatorY(s.data("lat")) * this.scale }));
    } else {
      sites.union(this.cy.edges(":not(.flow)")).layout({ name: sites.length > 60 ? "grid" : "cose", animate: false, fit: false, nodeRepulsion: 9000, idealEdgeLength: 110 }).run();
    }
    this.fit();
    this.drawGrid();
  }

  around(site, devices, many) {
    const home = this.cy.$id(`site:${site}`);
    const centre = home.length ? home.position() : { x: 0, y: -60 };
    devices.forEach((device, i) => {
      const id = `device:${device.id}`;
      const ring = Math.floor(i / 16);
      // (from the upper left clockwise, and none where the site's name stands)
      const angle = (-1.25 + 1.5 * (((i % 16) + 0.5) / Math.min(Math.max(devices.length, 6), 16))) * Math.PI;
      const target = { x: centre.x + (28 + 9 * ring) * Math.cos(angle), y: centre.y + (28 + 9 * ring) * Math.sin(angle) };
      const before = this.placed.get(id);
      if (before && before.x === target.x && before.y === target.y) return;
      this.placed.set(id, target);
      let node = this.cy.$id(id);
      if (!node.length) node = this.cy.add({ data: { id, name: device.id, kind: "device", site: device.site }, position: target });
      const moved = node.data("site") !== device.site;
      if (moved) node.data("site", device.site);
      if (moved && !many) node.stop().animate({ position: target }, { duration: 400 });
      else { node.stop(); node.position(target); }
      node.toggleClass("away", !home.length);
    });
  }

  // A query's plan over the sites: an arrow from where an operator runs to where its consumer does.
  mark(told) {
    const cy = this.cy;
    // operator -> [device whose rows it is for, or none; where it runs]
    const at = new Map();
    for (const [instance, site] of Object.entries(told ? told.placement : {})) {
      const [name, device] = instance.split("@");
      const number = Number(name.replace(/^.*\//, ""));
      at.set(number, [...(at.get(number) || []), [device, site]]);
    }
    const sites = new Set([...at.values()].flatMap((those) => those.map(([, site]) => site)));
    const flows = new Map();
    for (const operator of told ? told.operators : []) {
      for (const input of operator.inputs) {
        for (const [of, from] of at.get(input) || []) for (const [by, to] of at.get(operator.number) || []) {
          if (from === to || (of && by && of !== by)) continue;
          const way = `${from}>${to}`;
          flows.set(way, (flows.get(way) || new Set()).add(`${told.operators[input].kind} to ${operator.kind}`));
        }
      }
    }
    cy.batch(() => {
      cy.nodes("[kind = 'site']").forEach((n) => n.toggleClass("marked", sites.has(n.data("name"))));
      cy.elements(".flow").remove();
      for (const [way, labels] of flows) {
        const [from, to] = way.split(">").map((name) => (cy.$id(`site:${name}`).length ? `site:${name}` : `device:${name}`));
        if (!cy.$id(from).length || !cy.$id(to).length) continue;
        cy.add({ group: "edges", classes: "flow", data: { id: `flow:${way}`, source: from, target: to, label: [...labels].join(", ") } });
      }
    });
  }

  drawGrid() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      const { canvas, cy } = this;
      const ratio = devicePixelRatio || 1;
      const [w, h] = [canvas.clientWidth, canvas.clientHeight];
      canvas.width = w * ratio;
      canvas.height = h * ratio;
      if (!this.isMap) return;
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      const css = getComputedStyle(document.documentElement);
      pen.strokeStyle = css.getPropertyValue("--line");
      pen.fillStyle = css.getPropertyValue("--quiet");
      pen.font = "11px system-ui, sans-serif";
      const { x1, x2, y1, y2 } = cy.extent();
      const [west, east] = [x1 / this.scale, x2 / this.scale];
      const [north, south] = [latitude(y1 / this.scale), latitude(y2 / this.scale)];
      const step = [...STEPS].reverse().find((s) => (east - west) / s <= 8) || 30;
      const digits = Math.max(0, Math.ceil(-Math.log10(step)));
      const screen = (x, y) => [x * cy.zoom() + cy.pan().x, y * cy.zoom() + cy.pan().y];
      pen.beginPath();
      for (let lon = Math.ceil(west / step) * step; lon <= east; lon += step) {
        const [x] = screen(mercatorX(lon) * this.scale, 0);
        pen.moveTo(x, 0);
        pen.lineTo(x, h);
        pen.fillText(`${lon.toFixed(digits)}°`, x + 3, h - 4);
      }
      for (let lat = Math.ceil(south / step) * step; lat <= north; lat += step) {
        const [, y] = screen(0, mercatorY(lat) * this.scale);
        pen.moveTo(0, y);
        pen.lineTo(w, y);
        pen.fillText(`${lat.toFixed(digits)}°`, w - 48, y - 3);
      }
      pen.globalAlpha = 0.6;
      pen.stroke();
    });
  }
}

// Web Mercator in degrees: x grows to the east, y to the south
const mercatorX = (lon) => lon;
const mercatorY = (lat) => -(180 / Math.PI) * Math.log(Math.tan(Math.PI / 4 + (Math.max(-85, Math.min(85, lat)) * Math.PI) / 360));
const latitude = (y) => (360 / Math.PI) * Math.atan(Math.exp((-y * Math.PI) / 180)) - 90;

function style() {
  const label = { color: "#7d8794" };
  return [
    { selector: "node[kind = 'site']", style: { ...label, label: "data(name)", "background-color": "data(colour)", width: 26, height: 26, "font-size": 11, "text-valign": "bottom", "text-margin-y": 3, "min-zoomed-font-size": 6 } },
    { selector: "node[kind = 'device']", style: { ...label, "background-color": "#e0a100", width: 9, height: 9, label: "data(name)", "font-size": 6, "min-zoomed-font-size": 9 } },
    { selector: "node.away", style: { opacity: 0.35 } },
    { selector: "node.marked", style: { "border-width": 5, "border-color": "#e0a100" } },
    { selector: "edge", style: { width: 1.5, "line-color": "#99a3b0", "curve-style": "haystack" } },
    { selector: "edge.flow", style: { width: 3, "line-color": "#e0a100", "target-arrow-color": "#e0a100", "target-arrow-shape": "triangle", "curve-style": "bezier", "control-point-step-size": 50, label: "data(label)", "font-size": 8, color: "#a87900", "text-rotation": "autorotate", "text-margin-y": -7, "min-zoomed-font-size": 7 } },
  ];
}
