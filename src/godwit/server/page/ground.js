// Where things are: a map where every site has coordinates (and the browser draws with WebGL), otherwise a graph. The
// colours of regions, and the plan of the chosen query over the sites, are the same on both.

import { Graph } from "./graph.js";
import { make } from "./dom.js";
import { GeoMap, webgl } from "./map.js";

const COLOURS = ["#0b6bcb", "#c2571a", "#1d7f43", "#8a3ffc", "#b5179e", "#00848c", "#7a5c00", "#c0262d"];

export class Ground {
  constructor(panel, legend, chosen) {
    Object.assign(this, { panel, legend, chosen, regions: new Map(), drawn: null, told: null });
  }

  colour(region) {
    if (!this.regions.has(region)) {
      this.regions.set(region, COLOURS[this.regions.size % COLOURS.length]);
      this.legend.append(make("span", {}, make("i", { style: `background: ${this.regions.get(region)}` }), region));
    }
    return this.regions.get(region);
  }

  show(topology) {
    const isMap = topology.sites.length > 0 && topology.sites.every((site) => site.lat != null && site.lon != null) && webgl;
    if (!this.drawn || isMap !== this.drawn instanceof GeoMap) this.begin(isMap ? GeoMap : Graph);
    this.drawn.show(topology);
  }

  begin(Kind) {
    const element = make("div", { id: "ground", className: Kind === GeoMap ? "map" : "graph" });
    this.panel.querySelector("#ground").replaceWith(element);
    this.drawn = new Kind(element, (region) => this.colour(region), this.chosen);
    this.mark(this.told);
  }

  // The chosen query (what /explain says of it): operator -> [device whose rows it is for, or none; where it runs]
  mark(told) {
    this.told = told;
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
    this.drawn?.mark(sites, [...flows].map(([way, labels]) => [...way.split(">"), [...labels].join(", ")]));
  }

  fit() { this.drawn?.fit(); }

  theme() { this.drawn?.theme(); }
}
