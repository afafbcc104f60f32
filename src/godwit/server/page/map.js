// Sites that have coordinates, links and devices on a map: MapLibre over GeoJSON that is made here, so nothing is fetched
// from elsewhere. Names are drawn with the machine's own fonts (the style names no glyphs).

import * as maplibre from "./vendor/maplibre-gl.mjs";
import { anchor, ring } from "./ring.js";

const EMPTY = { type: "FeatureCollection", features: [] };
const SOURCES = ["grid", "links", "trails", "flows", "sites", "devices"];
// pixels between a site and its nearest ring of devices, and between two rings
const NEAR = 18, RING = 9;
// more moves than this at once are not animated; how long one takes (milliseconds)
const MANY = 60, TAKES = 400;
// a hop leaves a line from site to site for so long (milliseconds)
const TRAIL = 2500;
// names of so many devices are shown at any zoom, of more from a zoom on
const NAMED = 60, NAMES_FROM = 13;
// where there are more sites than this, those with so few links are drawn small, and named from a zoom on
const SITES = 30, FEW_LINKS = 2;
// degrees between two lines of the graticule
const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30];
const DEVICE = "#e0a100";

// Found out once: a browser keeps few contexts, and takes the map's away for each one more.
const probe = document.createElement("canvas").getContext("webgl2");
export const webgl = Boolean(probe);
probe?.getExtension("WEBGL_lose_context")?.loseContext();

export class GeoMap {
  constructor(element, colour, chosen) {
    Object.assign(this, { colour, chosen, sites: new Map(), links: [], at: new Map(), marked: new Set(), flows: [], key: "" });
    this.places = new Map(); // device -> where it is drawn
    this.moving = new Map(); // device -> [from, to, since]
    this.trails = []; // [from site, to site, until]
    this.anchors = new Map(); // device -> the side of its name that touches it
    this.map = new maplibre.Map({ container: element, style: style(), attributionControl: false, dragRotate: false, pitchWithRotate: false, fadeDuration: 0, maxZoom: 19, renderWorldCopies: false });
    this.map.touchZoomRotate.disableRotation();
    this.map.addControl(new maplibre.NavigationControl({ showCompass: false }), "bottom-right");
    this.map.addControl(new maplibre.ScaleControl(), "bottom-right");
    this.map.on("load", () => { this.ready = true; this.theme(); this.drawAll(); });
    this.map.on("zoomend", () => this.place(true));
    for (const layer of ["sites", "devices"]) {
      this.map.on("click", layer, (event) => this.chosen(event.features[0].properties));
      this.map.on("mouseenter", layer, () => { this.map.getCanvas().style.cursor = "pointer"; });
      this.map.on("mouseleave", layer, () => { this.map.getCanvas().style.cursor = ""; });
    }
  }

  // --- what is there

  show(topology) {
    const before = this.at;
    this.at = new Map(topology.devices.map((device) => [device.id, device.site]));
    this.drawTrails([...this.at].map(([device, site]) => [before.get(device), site]).filter(([from, to]) => from && from !== to));
    if (this.ready) this.map.setLayerZoomRange("device-names", this.at.size > NAMED ? NAMES_FROM : 0, 24);
    const key = JSON.stringify([topology.sites.map((s) => [s.id, s.region, s.lat, s.lon]), topology.links.map((l) => [l.a, l.b])]);
    if (key !== this.key) {
      this.key = key;
      this.sites = new Map(topology.sites.map((site) => [site.id, site]));
      this.links = topology.links;
      this.fit(false);
      this.drawAll();
    }
    this.place(false);
  }

  // A query's plan over the sites: where its operators run, and over which ways their rows go.
  mark(sites, flows) {
    Object.assign(this, { marked: sites, flows });
    this.drawSites();
  }

  fit(slowly = true) {
    const box = new maplibre.LngLatBounds();
    for (const site of this.sites.values()) box.extend([site.lon, site.lat]);
    if (!box.isEmpty()) this.map.fitBounds(box, { padding: 60, maxZoom: 15, animate: slowly });
  }

  where(name) {
    const site = this.sites.get(name);
    return this.map.project(site ? [site.lon, site.lat] : this.places.get(name));
  }

  // --- drawing

  theme() {
    if (!this.ready) return;
    const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    this.map.setPaintProperty("paper", "background-color", css("--paper"));
    for (const layer of ["grid", "links"]) this.map.setPaintProperty(layer, "line-color", css(layer === "grid" ? "--grid" : "--line"));
    this.map.setPaintProperty("devices", "circle-stroke-color", css("--paper"));
    for (const layer of ["site-names", "device-names", "flow-names"]) {
      this.map.setPaintProperty(layer, "text-color", css(layer === "device-names" ? "--ink" : "--quiet"));
      this.map.setPaintProperty(layer, "text-halo-color", css("--paper"));
    }
  }

  set(source, features) {
    this.map.getSource(source)?.setData({ type: "FeatureCollection", features });
  }

  drawAll() {
    if (!this.ready) return;
    this.set("grid", graticule([...this.sites.values()]));
    this.set("links", this.links.filter((l) => this.sites.has(l.a) && this.sites.has(l.b)).map((l) => line(this.sites.get(l.a), this.sites.get(l.b))));
    this.drawSites();
    this.place(true);
  }

  drawSites() {
    if (!this.ready) return;
    const links = new Map();
    for (const end of this.links.flatMap((l) => [l.a, l.b])) links.set(end, (links.get(end) || 0) + 1);
    const small = (id) => this.sites.size > SITES && (links.get(id) || 0) <= FEW_LINKS;
    this.set("sites", [...this.sites.values()].map((site) => point([site.lon, site.lat], { kind: "site", name: site.id, region: site.region, lat: site.lat, lon: site.lon, colour: this.colour(site.region), marked: this.marked.has(site.id), small: small(site.id) })));
    this.set("flows", this.flows.filter(([from, to]) => this.sites.has(from) && this.sites.has(to)).map(([from, to, label]) => line(this.sites.get(from), this.sites.get(to), { label })));
  }

  // Where devices have just come from
  drawTrails(hops) {
    const now = performance.now(), many = hops.length > MANY, before = this.trails.length;
    this.trails = [...this.trails.filter(([, , until]) => until > now), ...(many ? [] : hops.map(([from, to]) => [from, to, now + TRAIL]))];
    if (!this.ready || !(before || this.trails.length)) return;
    this.set("trails", this.trails.filter(([from, to]) => this.sites.has(from) && this.sites.has(to)).map(([from, to]) => line(this.sites.get(from), this.sites.get(to))));
  }

  // Devices lie in rings around their site, a few pixels away whatever the zoom.
  place(atOnce) {
    if (!this.ready) return;
    const rings = new Map();
    for (const [device, site] of this.at) rings.set(site, [...(rings.get(site) || []), device]);
    const targets = new Map();
    for (const [site, devices] of rings) {
      const home = this.sites.get(site);
      if (!home) continue;
      const centre = this.map.project([home.lon, home.lat]);
      devices.forEach((device, i) => {
        const { angle, number } = ring(i, devices.length);
        const radius = NEAR + RING * number;
        this.anchors.set(device, anchor(angle));
        const { lng, lat } = this.map.unproject([centre.x + radius * Math.cos(angle), centre.y + radius * Math.sin(angle)]);
        targets.set(device, [lng, lat]);
      });
    }
    const now = performance.now();
    const changed = [...targets].filter(([device, to]) => String((this.moving.get(device) || [0, this.places.get(device)])[1]) !== String(to));
    if (!changed.length && targets.size === this.places.size) return;
    for (const device of this.places.keys()) if (!targets.has(device)) for (const known of [this.places, this.moving, this.anchors]) known.delete(device);
    for (const [device, to] of changed) {
      const from = this.places.get(device);
      if (from && !atOnce && changed.length <= MANY && !matchMedia("(prefers-reduced-motion: reduce)").matches) this.moving.set(device, [from, to, now]);
      else { this.moving.delete(device); this.places.set(device, to); }
    }
    this.moving.size ? this.animate() : this.drawDevices();
  }

  animate() {
    if (this.animated) return;
    this.animated = true;
    const frame = (now) => {
      for (const [device, [from, to, since]] of this.moving) {
        const part = Math.min(1, (now - since) / TAKES);
        this.places.set(device, [from[0] + (to[0] - from[0]) * part, from[1] + (to[1] - from[1]) * part]);
        if (part === 1) { this.places.set(device, to); this.moving.delete(device); }
      }
      this.drawDevices();
      this.animated = this.moving.size > 0;
      if (this.animated) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  drawDevices() {
    this.set("devices", [...this.places].map(([device, at]) => point(at, { kind: "device", name: device, site: this.at.get(device), anchor: this.anchors.get(device) })));
  }
}

const point = (at, properties) => ({ type: "Feature", geometry: { type: "Point", coordinates: at }, properties });
const line = (a, b, properties = {}) => ({ type: "Feature", geometry: { type: "LineString", coordinates: [[a.lon, a.lat], [b.lon, b.lat]] }, properties });

// Meridians and parallels around the sites.
function graticule(sites) {
  if (!sites.length) return [];
  const [west, east] = [Math.min(...sites.map((s) => s.lon)), Math.max(...sites.map((s) => s.lon))];
  const [south, north] = [Math.min(...sites.map((s) => s.lat)), Math.max(...sites.map((s) => s.lat))];
  const wide = Math.max(east - west, north - south, 0.004);
  const step = STEPS.find((s) => wide / s <= 6) || 30;
  const low = (x) => Math.floor((x - wide) / step);
  const high = (x) => Math.ceil((x + wide) / step);
  const found = [];
  const add = (a, b) => found.push(line({ lon: a[0], lat: a[1] }, { lon: b[0], lat: b[1] }));
  const clip = (lat) => Math.max(-85, Math.min(85, lat));
  for (let i = low(west); i <= high(east); i += 1) add([i * step, clip(low(south) * step)], [i * step, clip(high(north) * step)]);
  for (let i = low(south); i <= high(north); i += 1) if (Math.abs(i * step) <= 85) add([low(west) * step, i * step], [high(east) * step, i * step]);
  return found;
}

function style() {
  const name = { "text-field": ["get", "name"], "text-font": ["sans-serif"], "text-optional": true };
  const halo = { "text-halo-width": 1.5 };
  const along = { "symbol-placement": "line", "text-field": ["get", "label"], "text-font": ["sans-serif"], "text-size": 10 };
  return {
    version: 8,
    sources: Object.fromEntries(SOURCES.map((source) => [source, { type: "geojson", data: EMPTY }])),
    layers: [
      { id: "paper", type: "background", paint: {} },
      { id: "grid", type: "line", source: "grid", paint: { "line-width": 1 } },
      { id: "links", type: "line", source: "links", paint: { "line-width": 1.5 } },
      { id: "trails", type: "line", source: "trails", layout: { "line-cap": "round" }, paint: { "line-color": DEVICE, "line-width": 3, "line-dasharray": [0.2, 2] } },
      { id: "flows", type: "line", source: "flows", layout: { "line-cap": "round" }, paint: { "line-color": DEVICE, "line-width": 4, "line-opacity": 0.8 } },
      { id: "flow-arrows", type: "symbol", source: "flows", layout: { ...along, "text-field": "▶", "text-size": 14, "symbol-spacing": 60, "text-keep-upright": false, "text-allow-overlap": true }, paint: { "text-color": DEVICE } },
      { id: "flow-names", type: "symbol", source: "flows", layout: { ...along, "text-offset": [0, -1.1], "symbol-spacing": 300 }, paint: halo },
      { id: "sites", type: "circle", source: "sites", paint: { "circle-color": ["get", "colour"], "circle-radius": ["case", ["get", "marked"], 9, ["get", "small"], 5, 8], "circle-stroke-color": DEVICE, "circle-stroke-width": ["case", ["get", "marked"], 4, 0] } },
      { id: "devices", type: "circle", source: "devices", paint: { "circle-color": DEVICE, "circle-radius": 5.5, "circle-stroke-width": 1.5 } },
      { id: "site-names", type: "symbol", source: "sites", filter: ["any", ["!", ["get", "small"]], ["get", "marked"], [">=", ["zoom"], NAMES_FROM]], layout: { ...name, "text-size": 12, "text-anchor": "top", "text-offset": [0, 1.1] }, paint: halo },
      { id: "device-names", type: "symbol", source: "devices", layout: { ...name, "text-size": 11, "text-anchor": ["get", "anchor"], "text-radial-offset": 0.7 }, paint: halo },
    ],
  };
}
