// Sites, links and devices as a graph, for fleets whose sites have no coordinates.

import { ring } from "./ring.js";
import cytoscape from "./vendor/cytoscape.js";

// more devices than this are not animated one by one
const MANY = 200;

export class Graph {
  constructor(element, colour, chosen) {
    this.colour = colour;
    this.placed = new Map();
    this.cy = cytoscape({ container: element, minZoom: 0.02, maxZoom: 8, style: style(), elements: [], textureOnViewport: true, hideEdgesOnViewport: false });
    this.cy.on("tap", "node", (event) => chosen(event.target.data()));
  }

  theme() {}

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
    sites.union(this.cy.edges(":not(.flow)")).layout({ name: sites.length > 60 ? "grid" : "cose", animate: false, fit: false, nodeRepulsion: 9000, idealEdgeLength: 110 }).run();
    this.fit();
  }

  around(site, devices, many) {
    const home = this.cy.$id(`site:${site}`);
    const centre = home.length ? home.position() : { x: 0, y: -60 };
    devices.forEach((device, i) => {
      const id = `device:${device.id}`;
      const { angle, number } = ring(i, devices.length);
      const target = { x: centre.x + (28 + 9 * number) * Math.cos(angle), y: centre.y + (28 + 9 * number) * Math.sin(angle) };
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
  mark(sites, flows) {
    const cy = this.cy;
    cy.batch(() => {
      cy.nodes("[kind = 'site']").forEach((n) => n.toggleClass("marked", sites.has(n.data("name"))));
      cy.elements(".flow").remove();
      for (const [a, b, label] of flows) {
        const [from, to] = [a, b].map((name) => (cy.$id(`site:${name}`).length ? `site:${name}` : `device:${name}`));
        if (!cy.$id(from).length || !cy.$id(to).length) continue;
        cy.add({ group: "edges", classes: "flow", data: { id: `flow:${a}>${b}`, source: from, target: to, label } });
      }
    });
  }
}

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
