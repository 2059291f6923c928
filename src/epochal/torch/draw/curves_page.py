"""The page around a graph's curves."""

from __future__ import annotations

from string import Template

PAGE = Template("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1f27; --dim: #667085; --grid: #e4e7ec }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14171d; --ink: #e6e9ef; --dim: #98a1b0; --grid: #2a303b }
}
body { margin: 24px auto; max-width: 940px; padding: 0 20px; background: var(--ground);
  color: var(--ink); font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif }
h1 { font-size: 16px; margin: 0 0 12px }
svg { width: 100%; height: auto; display: block }
text { font-size: 11px; fill: var(--dim); font-variant-numeric: tabular-nums }
.grid { stroke: var(--grid); fill: none }
.curve path { fill: none; stroke: var(--c); stroke-width: 1.8; stroke-linejoin: round }
.curve circle { fill: var(--c) }
.faded { opacity: .12 }
#cross { stroke: var(--dim); stroke-dasharray: 3 3; visibility: hidden }
#legend { display: flex; flex-wrap: wrap; gap: 6px; margin-top: 10px }
#legend button { font: inherit; color: inherit; background: none; border: 1px solid var(--grid);
  border-radius: 6px; padding: 2px 10px; cursor: pointer }
#legend b { display: inline-block; width: 9px; height: 9px; border-radius: 2px; margin-right: 7px;
  background: var(--c) }
#legend span { color: var(--dim); font-variant-numeric: tabular-nums }
#legend i { color: #d9730d; font-style: normal }
#place { color: var(--dim); min-height: 1.5em; margin: 4px 0 0 64px; font-size: 12px }
</style>
<h1>$title</h1>
<svg id="plot" viewBox="0 0 $width $height" role="img" aria-label="$title">
$axes
$lines
<path id="cross"/>
</svg>
<p id="place">epochs</p>
<div id="legend">$legend</div>
<script>
const data = $data;
const plot = document.getElementById("plot"), cross = document.getElementById("cross");
const place = document.getElementById("place"), legend = document.getElementById("legend");
const curves = [...document.querySelectorAll(".curve")], names = [...legend.children];
const last = names.map((name) => name.querySelector("span").textContent);
let solo = -1;
legend.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  solo = solo === +button.dataset.i ? -1 : +button.dataset.i;
  curves.forEach((curve, i) => curve.classList.toggle("faded", solo >= 0 && i !== solo));
  names.forEach((name, i) => name.classList.toggle("faded", solo >= 0 && i !== solo));
});
plot.addEventListener("mousemove", (event) => {
  const box = plot.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * $width;
  const share = Math.min(Math.max((x - data.left) / data.span, 0), 1);
  const epoch = data.epochs > 1 ? Math.round(share * (data.epochs - 1)) + 1 : 1;
  const at = data.left + (data.epochs > 1 ? (epoch - 1) / (data.epochs - 1) : 0.5) * data.span;
  cross.setAttribute("d", "M" + at + ",12V" + ($height - 30));
  cross.style.visibility = "visible";
  place.textContent = "epoch " + epoch;
  names.forEach((name, i) => {
    const index = data.flushes[i].indexOf(epoch);
    name.querySelector("span").textContent = index < 0 ? "—" : data.values[i][index];
  });
});
plot.addEventListener("mouseleave", () => {
  cross.style.visibility = "hidden";
  place.textContent = "epochs";
  names.forEach((name, i) => { name.querySelector("span").textContent = last[i]; });
});
</script>
</html>
""")
