/** A line without axes, as tall as a word; it ends in a dot at the latest value. */

import { mountChart } from "./canvas.ts";
import type { Chart, Size } from "./canvas.ts";
import { formatNumber } from "./format.ts";
import { columnBand, isDense, thinLine } from "./paths.ts";
import { slotColor } from "./palette.ts";
import { createScale } from "./scale.ts";
import { pointSamples } from "./series.ts";
import type { Renderer } from "./renderer.ts";
import type { ChartTheme } from "./theme.ts";

export interface SparklineOptions {
  readonly label: string;
  readonly x: Float64Array;
  readonly y: Float64Array;
  /** Palette slot; without one the line has the accent colour. */
  readonly slot?: number;
  readonly isLog?: boolean;
}

const MARGIN = 3;

export function createSparkline(root: HTMLElement, options: SparklineOptions): Chart<SparklineOptions> {
  return mountChart(root, options, (current) => ({
    label: () => `${current().label}: ${formatNumber(current().y.at(-1) ?? NaN)}`,
    draw: (renderer, size, theme) => drawSparkline(renderer, size, current(), theme),
  }));
}

export function drawSparkline(renderer: Renderer, size: Size, options: SparklineOptions, theme: ChartTheme): void {
  const { x, y } = options;
  const kind = options.isLog ? "log" : "linear";
  const floor = options.isLog ? 0 : -Infinity;
  const known = y.filter((value) => Number.isFinite(value) && value > floor);
  if (known.length === 0) return;
  const color = options.slot === undefined ? theme.accent : slotColor(options.slot, theme.isDark);
  const [min, max] = [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))];
  const flat = min === max;
  const xScale = createScale("linear", { min: x[0]!, max: Math.max(x.at(-1)!, x[0]! + 1e-9) }, MARGIN, size.width - MARGIN);
  const yScale = createScale(flat ? "linear" : kind, flat ? { min: min - 1, max: max + 1 } : { min, max }, size.height - MARGIN, MARGIN);
  if (isDense(x, xScale, size.width)) {
    renderer.path({ stroke: color, width: 1, alpha: 0.3, cap: "butt" }, (sink) => columnBand(sink, pointSamples(x, y), xScale, yScale));
  }
  renderer.path({ stroke: color, width: 1.25 }, (sink) => thinLine(sink, x, y, xScale, yScale, size.width));
  const last = y.findLastIndex((value) => Number.isFinite(value) && value > floor);
  renderer.circle(xScale.toPixel(x[last]!), yScale.toPixel(y[last]!), 2.25, { fill: color });
}
