/** Percentiles over steps: nested bands around the median. */

import { AXIS_HEIGHT, drawAxisX, drawAxisY, labelWidth, verticalLine } from "./axes.ts";
import { distributionQuantile } from "./distribution.ts";
import type { StepDistribution } from "./distribution.ts";
import { mountChart } from "./canvas.ts";
import type { Chart, Size } from "./canvas.ts";
import { formatNumber } from "./format.ts";
import { band, traceLine } from "./paths.ts";
import { slotColor } from "./palette.ts";
import type { Box, Renderer } from "./renderer.ts";
import { createScale, padRange } from "./scale.ts";
import type { Range, Scale } from "./scale.ts";
import { nearestIndex } from "./series.ts";
import type { ChartTheme } from "./theme.ts";
import { axisName, positionLabel, ticks } from "./ticks.ts";
import type { AxisFormat, Ticks } from "./ticks.ts";

/** Quantiles at each x, in pairs from the outermost inwards, the median last; their number is odd. */
export interface Percentiles {
  readonly x: Float64Array;
  readonly levels: readonly number[];
  readonly values: readonly Float64Array[];
}

export interface BandsOptions {
  readonly label: string;
  readonly percentiles: Percentiles;
  readonly slot: number;
  readonly xFormat: AxisFormat;
  readonly selectedX: number | null;
  readonly onX?: (x: number) => void;
}

const LEVELS = [0, 1, 0.07, 0.93, 0.16, 0.84, 0.31, 0.69, 0.5] as const;
const ALPHA = [0.1, 0.14, 0.18, 0.26];

/** Percentiles of distributions: the extremes, then one and a half, one and half a standard deviation of a normal one. */
export function percentilesOf(distributions: readonly StepDistribution[]): Percentiles {
  return {
    x: Float64Array.from(distributions, ({ step }) => step),
    levels: LEVELS,
    values: LEVELS.map((level) =>
      Float64Array.from(distributions, (distribution) => distributionQuantile(distribution, level)),
    ),
  };
}

export function createBands(root: HTMLElement, options: BandsOptions): Chart<BandsOptions> {
  return mountChart(root, options, (current) => {
    const nearest = (px: number, size: Size): number =>
      nearestIndex(current().percentiles.x, layout(size, current()).x.toValue(px));
    return {
      label: () => `${current().label}: percentiles over ${current().percentiles.x.length} steps`,
      draw: (renderer, size, theme) => drawBands(renderer, size, current(), theme),
      hover: (point, size) => {
        const index = point === null ? -1 : nearest(point.x, size);
        if (index < 0) return null;
        const { x, levels, values } = current().percentiles;
        const order = levels
          .map((level, at) => ({ level, value: values[at]![index]! }))
          .sort((one, other) => other.level - one.level);
        return {
          title: positionLabel(x[index]!, current().xFormat),
          rows: order.map(({ level, value }) => ({
            label: levelName(level),
            value: formatNumber(value),
            isNearest: level === 0.5,
          })),
        };
      },
      click: (point, size) => {
        const index = nearest(point.x, size);
        if (index >= 0) current().onX?.(current().percentiles.x[index]!);
      },
    };
  });
}

export function levelName(level: number): string {
  if (level === 0) return "min";
  if (level === 1) return "max";
  return level === 0.5 ? "median" : `${Number((level * 100).toFixed(1))}\u00a0%`;
}

export function drawBands(
  renderer: Renderer,
  size: Size,
  options: BandsOptions,
  theme: ChartTheme,
): void {
  const { box, x, y, yTicks } = layout(size, options);
  const { percentiles } = options;
  const color = slotColor(options.slot, theme.isDark);
  drawAxisY(renderer, box, y, yTicks, theme);
  drawAxisX(
    renderer,
    box,
    x,
    ticks("linear", x, Math.max(2, box.width / 90), options.xFormat),
    theme,
    true,
    axisName(options.xFormat),
  );
  renderer.clip(box, () => {
    for (let at = 0; at + 1 < percentiles.values.length; at += 2) {
      const [low, high] = [percentiles.values[at]!, percentiles.values[at + 1]!];
      renderer.path({ fill: color, alpha: ALPHA[at / 2] ?? 0.2 }, (sink) =>
        band(sink, percentiles.x, low, high, x, y),
      );
    }
    const median = percentiles.values.at(-1);
    if (median !== undefined)
      renderer.path({ stroke: color, width: 1.75 }, (sink) =>
        traceLine(sink, percentiles.x, median, x, y),
      );
    if (options.selectedX !== null)
      verticalLine(renderer, Math.round(x.toPixel(options.selectedX)) + 0.5, box, theme.ink);
  });
}

function layout(
  size: Size,
  { percentiles }: BandsOptions,
): { box: Box; x: Scale; y: Scale; yTicks: Ticks } {
  const yRange = padRange("linear", valueRange(percentiles), 0.05);
  const height = Math.max(1, size.height - AXIS_HEIGHT - 8);
  const yTicks = ticks("linear", yRange, Math.max(2, height / 44), "number");
  const left = labelWidth(yTicks.labels) + 4;
  const box = { left, top: 8, width: Math.max(1, size.width - left - 12), height };
  const [min, max] = [percentiles.x[0] ?? 0, percentiles.x.at(-1) ?? 1];
  return {
    box,
    x: createScale(
      "linear",
      max > min ? { min, max } : { min: min - 0.5, max: max + 0.5 },
      left,
      left + box.width,
    ),
    y: createScale("linear", yRange, box.top + box.height, box.top),
    yTicks,
  };
}

function valueRange({ values }: Percentiles): Range {
  let min = Infinity;
  let max = -Infinity;
  for (const value of [...(values[0] ?? []), ...(values[1] ?? values[0] ?? [])]) {
    if (value < min) min = value;
    if (value > max) max = value;
  }
  return min <= max ? { min, max } : { min: 0, max: 1 };
}
