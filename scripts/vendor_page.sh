#!/usr/bin/env bash
# Fetches the libraries of the page from npm, with their licences. Run it to update them; users never need it.
set -euo pipefail
cd "$(dirname "$0")/.."
into="$PWD/src/godwit/server/page/vendor"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm pack --silent cytoscape@3.34.4 uplot@1.6.32 maplibre-gl@6.17.0
for pack in *.tgz; do mkdir "${pack%.tgz}" && tar xzf "$pack" -C "${pack%.tgz}" --strip-components 1; done
mkdir -p "$into"
cp cytoscape-*/dist/cytoscape.esm.min.mjs "$into/cytoscape.js"
cp cytoscape-*/LICENSE "$into/cytoscape.LICENSE"
cp uplot-*/dist/uPlot.esm.js "$into/uplot.js"
cp uplot-*/dist/uPlot.min.css "$into/uplot.css"
cp uplot-*/LICENSE "$into/uplot.LICENSE"
# (the worker is looked for beside the library, under its own name; the maps for debuggers are left out)
for part in maplibre-gl.mjs maplibre-gl-worker.mjs maplibre-gl.css; do
  sed '/^\/\/# sourceMappingURL=/d' maplibre-gl-*/dist/$part > "$into/$part"
done
cp maplibre-gl-*/LICENSE.txt "$into/maplibre-gl.LICENSE"
