/** The bars of one distribution. */

import { AXIS_HEIGHT, drawAxisX, drawAxisY, labelWidth } from "./axes.ts";
import { countOutside, innerExtent, onlyValue, total } from "./distribution.ts";
import type { Distribution } from "./distribution.ts";
import { mountChart } from "./canvas.ts";
import type { Chart, Point, Size } from "./canvas.ts";
import { formatNumber, formatPercent, formatWhole } from "./format.ts";
import { slotColor } from "./palette.ts";
import type { Box, Renderer } from "./renderer.ts";
import { createScale } from "./scale.ts";
import type { Range, Scale } from "./scale.ts";
import type { ChartTheme } from "./theme.ts";
import { ticks } from "./ticks.ts";
import type { Ticks } from "./ticks.ts";
import type { TooltipContent } from "./tooltip.ts";

export interface HistogramOptions {
  readonly label: string;
  readonly distribution: Distribution;
  readonly slot: number;
  /** Of the values, such as `ms`. */
  readonly unit?: string;
  /** The same axis for every step keeps the picture still while a cursor moves over steps. */
  readonly range?: Range;
}

/** Width of the mark of equal values, and how near the pointer must be to it. */
const MARK_PX = 3;
const NEAR_PX = 5;

interface Layout {
  readonly box: Box;
  readonly x: Scale;
  readonly y: Scale;
  readonly yTicks: Ticks;
}

export function createHistogram(
  root: HTMLElement,
  options: HistogramOptions,
): Chart<HistogramOptions> {
  return mountChart(root, options, (current) => ({
    label: () => histogramLabel(current()),
    draw: (renderer, size, theme) => drawHistogram(renderer, size, current(), theme),
    hover: (point, size) => (point === null ? null : binUnder(point, size, current())),
  }));
}

/** The words for those who do not see the picture. */
export function histogramLabel({ label, distribution }: HistogramOptions): string {
  const { step, counts } = distribution;
  const only = onlyValue(distribution);
  return `${label}${step === null ? "" : ` at step ${step}`}, ${only === null ? `${counts.length} bins` : `all values are ${formatNumber(only)}`}`;
}

export function drawHistogram(
  renderer: Renderer,
  size: Size,
  options: HistogramOptions,
  theme: ChartTheme,
): void {
  const { box, x, y, yTicks } = layout(size, options);
  const { edges, counts } = options.distribution;
  drawAxisY(renderer, box, y, yTicks, theme);
  const ink = { fill: slotColor(options.slot, theme.isDark), alpha: 0.85 };
  const only = onlyValue(options.distribution);
  if (only !== null && only >= x.min && only <= x.max) {
    const top = y.toPixel(counts[0]!);
    renderer.rect(
      {
        left: x.toPixel(only) - MARK_PX / 2,
        top,
        width: MARK_PX,
        height: box.top + box.height - top,
      },
      ink,
    );
  }
  renderer.clip(box, () => {
    for (let bin = 0; bin < counts.length; bin++) {
      if (only !== null || !(counts[bin]! > 0)) continue;
      const left = x.toPixel(edges[bin]!);
      const width = x.toPixel(edges[bin + 1]!) - left;
      const top = y.toPixel(counts[bin]!);
      const gap = width > 4 ? 1 : 0;
      renderer.rect(
        { left, top, width: Math.max(0.75, width - gap), height: box.top + box.height - top },
        ink,
      );
    }
  });
  const beyond = countOutside(options.distribution, x);
  if (beyond > 0)
    renderer.text(
      box.left + box.width - 4,
      box.top + 6,
      `${formatWhole(beyond)} beyond the axis, ${formatNumber(edges[0]!)} to ${formatNumber(edges.at(-1)!)}`,
      { fill: theme.muted, align: "right", size: 10 },
    );
  drawAxisX(
    renderer,
    box,
    x,
    ticks("linear", x, Math.max(2, box.width / 80), "number"),
    theme,
    false,
  );
}

function layout(size: Size, { distribution, range }: HistogramOptions): Layout {
  const height = Math.max(1, size.height - AXIS_HEIGHT - 8);
  const largest = distribution.counts.reduce((most, count) => Math.max(most, count), 0) || 1;
  const yRange = { min: 0, max: largest * 1.05 };
  const yTicks = ticks("linear", yRange, Math.max(2, height / 44), "step");
  const left = labelWidth(yTicks.labels) + 4;
  const box = { left, top: 8, width: Math.max(1, size.width - left - 10), height };
  return {
    box,
    x: createScale("linear", range ?? innerExtent([distribution]), left, left + box.width),
    y: createScale("linear", yRange, box.top + box.height, box.top),
    yTicks,
  };
}

export function binUnder(
  point: Point,
  size: Size,
  options: HistogramOptions,
): TooltipContent | null {
  const { x } = layout(size, options);
  const { edges, counts, step } = options.distribution;
  const value = x.toValue(point.x);
  const only = onlyValue(options.distribution);
  const bin =
    only === null
      ? edges.findIndex(
          (edge, index) => index < counts.length && value >= edge && value < edges[index + 1]!,
        )
      : Math.abs(x.toPixel(only) - point.x) <= NEAR_PX
        ? 0
        : -1;
  if (bin < 0) return null;
  const count = counts[bin]!;
  const values =
    only === null
      ? `${formatNumber(edges[bin]!)} to ${formatNumber(edges[bin + 1]!)}`
      : formatNumber(only);
  return {
    title: `${values}${options.unit === undefined ? "" : ` ${options.unit}`}`,
    rows: [
      {
        label: "count",
        value: formatWhole(count),
        note: formatPercent(count / (total(counts) || 1)),
      },
    ],
    ...(step === null ? {} : { foot: `step ${formatWhole(step)}` }),
  };
}
