// Sites, links and devices as a graph; sites with coordinates lie where they are on the map.

import cytoscape from "./vendor/cytoscape.js";

const COLOURS = ["#0b6bcb", "#c2571a", "#1d7f43", "#8a3ffc", "#b5179e", "#00848c", "#7a5c00", "#c0262d"];

export class Graph {
  constructor(element, chosen) {
    this.regions = new Map();
    this.places = new Map();
    this.cy = cytoscape({ container: element, minZoom: 0.1, maxZoom: 4, style: style(), elements: [] });
    this.cy.on("tap", "node", (event) => chosen(event.target.data()));
    this.version = null;
  }

  colour(region) {
    if (!this.regions.has(region)) this.regions.set(region, COLOURS[this.regions.size % COLOURS.length]);
    return this.regions.get(region);
  }

  // Sites and links change seldom; devices move all the time and are placed around their site.
  show(topology) {
    const cy = this.cy;
    const wanted = new Set([...topology.sites.map((s) => `site:${s.id}`), ...topology.devices.map((d) => `device:${d.id}`), ...topology.links.map((l) => `link:${l.a}:${l.b}`)]);
    cy.batch(() => {
      cy.elements().filter((e) => !wanted.has(e.id())).remove();
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
      for (const device of topology.devices) at.set(device.site, [...(at.get(device.site) || []), device]);
      for (const [site, devices] of at) this.around(site, devices);
    });
  }

  layOut() {
    const sites = this.cy.nodes("[kind = 'site']");
    if (sites.length && sites.every((s) => s.data("lat") != null && s.data("lon") != null)) {
      sites.positions((s) => ({ x: s.data("lon") * 4000, y: -s.data("lat") * 6500 }));
      this.cy.fit(sites, 40);
    } else {
      sites.union(this.cy.edges()).layout({ name: sites.length > 60 ? "grid" : "cose", animate: false, padding: 40, nodeRepulsion: 9000, idealEdgeLength: 90 }).run();
    }
  }

  around(site, devices) {
    const home = this.cy.$id(`site:${site}`);
    devices.forEach((device, i) => {
      const id = `device:${device.id}`;
      const angle = (2 * Math.PI * i) / Math.max(devices.length, 6);
      const radius = 26 + 7 * Math.floor(i / 16);
      const centre = home.length ? home.position() : { x: 0, y: -60 };
      const target = { x: centre.x + radius * Math.cos(angle), y: centre.y + radius * Math.sin(angle) };
      let node = this.cy.$id(id);
      if (!node.length) node = this.cy.add({ data: { id, name: device.id, kind: "device", site: device.site }, position: target });
      if (node.data("site") !== device.site) {
        node.data("site", device.site);
        node.stop().animate({ position: target }, { duration: 400 });
      } else if (!node.animated()) {
        node.position(target);
      }
      node.toggleClass("away", !home.length);
    });
  }

  // Where a query's instances are: "query/operator@device" -> site
  mark(placement) {
    const sites = new Set(Object.values(placement || {}).map((s) => `site:${s}`));
    this.cy.nodes("[kind = 'site']").forEach((n) => n.toggleClass("marked", sites.has(n.id())));
  }
}

function style() {
  return [
    { selector: "node[kind = 'site']", style: { label: "data(name)", "background-color": "data(colour)", width: 26, height: 26, "font-size": 11, color: "#888", "text-valign": "bottom", "text-margin-y": 3 } },
    { selector: "node[kind = 'device']", style: { "background-color": "#e0a100", width: 9, height: 9, label: "data(name)", "font-size": 6, color: "#888", "min-zoomed-font-size": 9 } },
    { selector: "node.away", style: { opacity: 0.35 } },
    { selector: "node.marked", style: { "border-width": 5, "border-color": "#e0a100" } },
    { selector: "edge", style: { width: 1.5, "line-color": "#99a3b0", "curve-style": "straight" } },
  ];
}
