/** Distributions over steps as ridges, the newest in front. */

import { AXIS_HEIGHT, drawAxisX } from "./axes.ts";
import {
  densityAt,
  distributionQuantile,
  innerExtent,
  innerRange,
  onlyValue,
} from "./distribution.ts";
import type { StepDistribution } from "./distribution.ts";
import { mountChart } from "./canvas.ts";
import type { Chart, Point, Size } from "./canvas.ts";
import { formatNumber, formatWhole } from "./format.ts";
import { slotColor } from "./palette.ts";
import type { Box, Renderer } from "./renderer.ts";
import { createScale } from "./scale.ts";
import type { Scale } from "./scale.ts";
import type { ChartTheme } from "./theme.ts";
import { tickLabel, ticks } from "./ticks.ts";

export interface RidgeOptions {
  readonly label: string;
  /** Ascending by step. */
  readonly distributions: readonly StepDistribution[];
  readonly slot: number;
  /** The step that the cursor is on, drawn in full colour. */
  readonly selectedStep: number | null;
  readonly onStep?: (step: number) => void;
}

const MAX_RIDGES = 60;
const OVERLAP = 5;
const RIGHT = 46;
/** Densities are read that many pixels apart. */
const PLACE_PX = 2;

export function createRidge(root: HTMLElement, options: RidgeOptions): Chart<RidgeOptions> {
  return mountChart(root, options, (current) => ({
    label: () => `${current().label}: distribution at ${current().distributions.length} steps`,
    draw: (renderer, size, theme) => drawRidge(renderer, size, current(), theme),
    hover: (point, size) => {
      const distribution = point === null ? undefined : ridgeUnder(point, size, current());
      if (point === null || distribution === undefined) return null;
      const at = layout(size, current().distributions).x.toValue(point.x);
      const only = onlyValue(distribution);
      const [density] = densityAt(distribution, Float64Array.of(at));
      return {
        title: `step ${formatWhole(distribution.step)}`,
        rows: [
          only === null
            ? { label: `density at ${formatNumber(at)}`, value: formatNumber(density ?? 0) }
            : { label: "all values", value: formatNumber(only) },
        ],
      };
    },
    click: (point, size) => {
      const distribution = ridgeUnder(point, size, current());
      if (distribution !== undefined) current().onStep?.(distribution.step);
    },
  }));
}

/** At most `limit` of a list, evenly chosen, with the first and the last among them. */
export function thinned<Item>(items: readonly Item[], limit: number): readonly Item[] {
  if (items.length <= limit) return items;
  return Array.from(
    { length: limit },
    (_, index) => items[Math.round((index * (items.length - 1)) / (limit - 1))]!,
  );
}

export function drawRidge(
  renderer: Renderer,
  size: Size,
  options: RidgeOptions,
  theme: ChartTheme,
): void {
  const shown = thinned(options.distributions, MAX_RIDGES);
  if (shown.length === 0) return;
  const { box, x } = layout(size, options.distributions);
  drawAxisX(renderer, box, x, ticks("linear", x, Math.max(2, box.width / 80), "number"), theme);
  const places = Float64Array.from(
    { length: Math.max(2, Math.floor(box.width / PLACE_PX)) },
    (_, index) => x.toValue(box.left + index * PLACE_PX),
  );
  const spikes = shown.map((distribution) => spikeAt(distribution, x));
  const densities = shown.map((distribution) => densityAt(distribution, places));
  const peak = densities.map((density, row) =>
    spikes[row] === null ? density.reduce((most, value) => Math.max(most, value), 0) : 0,
  );
  // On one straight scale a single sharp ridge would flatten all others; a power below one keeps their order.
  const highest = Math.max(...peak) || 1;
  const base = ridgeBases(shown.length, box);
  const height = ridgeHeight(shown.length, box);
  const color = slotColor(options.slot, theme.isDark);
  shown.forEach((distribution, row) => {
    const y = base[row]!;
    const isSelected = distribution.step === options.selectedStep;
    const write = (sink: {
      moveTo(x: number, y: number): void;
      lineTo(x: number, y: number): void;
    }): void => {
      sink.moveTo(box.left, y);
      const spike = spikes[row]!;
      if (spike === null)
        densities[row]!.forEach((density, index) =>
          sink.lineTo(box.left + index * PLACE_PX, y - (density / highest) ** 0.8 * height),
        );
      else
        for (const [aside, up] of [
          [-PLACE_PX, 0],
          [0, height],
          [PLACE_PX, 0],
        ] as const)
          sink.lineTo(spike + aside, y - up);
      sink.lineTo(box.left + box.width, y);
    };
    const age = shown.length > 1 ? row / (shown.length - 1) : 1;
    renderer.path({ fill: theme.surface }, write);
    renderer.path({ fill: color, alpha: isSelected ? 0.75 : 0.1 + 0.3 * age }, write);
    renderer.path(
      {
        stroke: isSelected ? theme.ink : color,
        width: isSelected ? 1.5 : 0.9,
        alpha: isSelected ? 1 : 0.45 + 0.55 * age,
      },
      write,
    );
  });
  drawSteps(renderer, shown, base, box, theme);
}

/** Pixel of a distribution that is too narrow to be read off as densities, such as that of equal values; null for others. */
function spikeAt(distribution: StepDistribution, x: Scale): number | null {
  const { min, max } = innerRange(distribution);
  return x.toPixel(max) - x.toPixel(min) < PLACE_PX
    ? x.toPixel(distributionQuantile(distribution, 0.5))
    : null;
}

function drawSteps(
  renderer: Renderer,
  shown: readonly StepDistribution[],
  base: readonly number[],
  box: Box,
  theme: ChartTheme,
): void {
  const every = Math.max(1, Math.ceil((shown.length * 16) / box.height));
  for (let row = shown.length - 1; row >= 0; row -= every) {
    const { step } = shown[row]!;
    renderer.text(
      box.left + box.width + 6,
      base[row]! - 3,
      tickLabel(step, Math.max(1, step / 100), "step"),
      { fill: theme.muted, size: 10 },
    );
  }
}

function layout(size: Size, distributions: readonly StepDistribution[]) {
  const box = {
    left: 8,
    top: 8,
    width: Math.max(1, size.width - 8 - RIGHT),
    height: Math.max(1, size.height - AXIS_HEIGHT - 8),
  };
  return {
    box,
    x: createScale("linear", innerExtent(distributions), box.left, box.left + box.width),
  };
}

function ridgeHeight(num: number, box: Box): number {
  return Math.min(box.height * 0.6, (box.height / (num + OVERLAP)) * OVERLAP * 1.3);
}

/** Pixel y on which each ridge stands. */
export function ridgeBases(num: number, box: Box): number[] {
  const room = ridgeHeight(num, box);
  const stride = num > 1 ? (box.height - room) / (num - 1) : 0;
  return Array.from({ length: num }, (_, row) =>
    num > 1 ? box.top + room + row * stride : box.top + box.height,
  );
}

function ridgeUnder(point: Point, size: Size, options: RidgeOptions): StepDistribution | undefined {
  const shown = thinned(options.distributions, MAX_RIDGES);
  const { box } = layout(size, options.distributions);
  const row = ridgeBases(shown.length, box).findIndex((base) => point.y <= base);
  return shown[row];
}
