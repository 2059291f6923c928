/** Any two numbers of each item against each other. */

import { AXIS_HEIGHT, drawAxisX, drawAxisY, labelWidth } from "./axes.ts";
import { mountChart } from "./canvas.ts";
import type { Chart, Point, Size } from "./canvas.ts";
import { formatNumber } from "./format.ts";
import { slotColor, slotCss } from "./palette.ts";
import type { Box, Renderer } from "./renderer.ts";
import { createScale, padRange } from "./scale.ts";
import type { Range, Scale, ScaleKind } from "./scale.ts";
import type { ChartTheme } from "./theme.ts";
import { ticks } from "./ticks.ts";
import type { Ticks } from "./ticks.ts";

export interface ScatterItem {
  readonly id: string;
  readonly label: string;
  readonly slot: number;
  readonly x: number;
  readonly y: number;
}

export interface ScatterOptions {
  readonly label: string;
  readonly items: readonly ScatterItem[];
  readonly xName: string;
  readonly yName: string;
  readonly xKind: ScaleKind;
  readonly yKind: ScaleKind;
  readonly hasTrend: boolean;
  readonly highlighted: string | null;
  readonly onItem?: (id: string) => void;
}

export interface Trend {
  readonly slope: number;
  readonly offset: number;
  /** Pearson's correlation. */
  readonly correlation: number;
}

const REACH_PX = 14;

export function createScatter(root: HTMLElement, options: ScatterOptions): Chart<ScatterOptions> {
  let hovered: ScatterItem | null = null;
  return mountChart(root, options, (current, redraw) => ({
    label: () => `${current().label}: ${current().items.length} points of ${current().yName} by ${current().xName}`,
    draw: (renderer, size, theme) => drawScatter(renderer, size, current(), theme, hovered?.id ?? current().highlighted),
    hover: (point, size) => {
      const found = point === null ? null : itemUnder(point, size, current());
      if (found?.id !== hovered?.id) redraw();
      hovered = found;
      if (found === null) return null;
      return {
        title: found.label,
        rows: [
          { label: current().xName, value: formatNumber(found.x), color: slotCss(found.slot) },
          { label: current().yName, value: formatNumber(found.y) },
        ],
      };
    },
    click: (point, size) => {
      const found = itemUnder(point, size, current());
      if (found !== null) current().onItem?.(found.id);
    },
  }));
}

/** Least squares through points; null for fewer than three, or when all x are equal. */
export function trendOf(x: readonly number[], y: readonly number[]): Trend | null {
  const num = x.length;
  if (num < 3) return null;
  const meanX = x.reduce((sum, value) => sum + value, 0) / num;
  const meanY = y.reduce((sum, value) => sum + value, 0) / num;
  let xx = 0;
  let xy = 0;
  let yy = 0;
  for (let index = 0; index < num; index++) {
    const [dx, dy] = [x[index]! - meanX, y[index]! - meanY];
    xx += dx * dx;
    xy += dx * dy;
    yy += dy * dy;
  }
  if (!(xx > 0)) return null;
  return { slope: xy / xx, offset: meanY - (xy / xx) * meanX, correlation: yy > 0 ? xy / Math.sqrt(xx * yy) : 0 };
}

export function drawScatter(renderer: Renderer, size: Size, options: ScatterOptions, theme: ChartTheme, hovered: string | null): void {
  const items = shownItems(options);
  const { box, x, y, yTicks } = layout(size, options, items);
  drawAxisY(renderer, box, y, yTicks, theme);
  drawAxisX(renderer, box, x, ticks(options.xKind, x, Math.max(2, box.width / 90), "number"), theme);
  renderer.text(box.left + box.width, size.height - 5, options.xName, { fill: theme.ink, align: "right", size: 10.5 });
  renderer.text(box.left, 7, options.yName, { fill: theme.ink, size: 10.5 });
  renderer.clip({ left: box.left - 6, top: box.top - 6, width: box.width + 12, height: box.height + 12 }, () => {
    if (options.hasTrend) drawTrend(renderer, box, x, y, items, theme);
    for (const item of items) {
      const isHovered = item.id === hovered;
      const fill = slotColor(item.slot, theme.isDark);
      const ink = isHovered ? { fill, stroke: theme.ink, width: 1.5 } : { fill, alpha: 0.75 };
      renderer.circle(x.toPixel(item.x), y.toPixel(item.y), isHovered ? 5.5 : items.length > 300 ? 2.5 : 4, ink);
    }
  });
  const left = options.items.length - items.length;
  if (left > 0) renderer.text(box.left + box.width, 7, `${left} without a value`, { fill: theme.muted, align: "right", size: 10 });
}

function drawTrend(renderer: Renderer, box: Box, x: Scale, y: Scale, items: readonly ScatterItem[], theme: ChartTheme): void {
  // In pixels, so that the line is straight on log axes too.
  const trend = trendOf(items.map((item) => x.toPixel(item.x)), items.map((item) => -y.toPixel(item.y)));
  if (trend === null) return;
  renderer.path({ stroke: theme.muted, dash: [4, 4] }, (sink) => {
    sink.moveTo(box.left, -(trend.slope * box.left + trend.offset));
    sink.lineTo(box.left + box.width, -(trend.slope * (box.left + box.width) + trend.offset));
  });
  renderer.text(box.left + box.width - 4, box.top + 8, `r = ${trend.correlation.toFixed(2)}`, { fill: theme.muted, align: "right", size: 10.5 });
}

function shownItems({ items, xKind, yKind }: ScatterOptions): ScatterItem[] {
  const fits = (value: number, kind: ScaleKind): boolean => Number.isFinite(value) && (kind === "linear" || value > 0);
  return items.filter((item) => fits(item.x, xKind) && fits(item.y, yKind));
}

function layout(size: Size, options: ScatterOptions, items: readonly ScatterItem[]): { box: Box; x: Scale; y: Scale; yTicks: Ticks } {
  const yRange = padRange(options.yKind, rangeOf(items.map(({ y }) => y), options.yKind), 0.06);
  const xRange = padRange(options.xKind, rangeOf(items.map(({ x }) => x), options.xKind), 0.04);
  const top = 18;
  const height = Math.max(1, size.height - top - AXIS_HEIGHT - 14);
  const yTicks = ticks(options.yKind, yRange, Math.max(2, height / 44), "number");
  const left = labelWidth(yTicks.labels) + 4;
  const box = { left, top, width: Math.max(1, size.width - left - 12), height };
  return {
    box,
    x: createScale(options.xKind, xRange, left, left + box.width),
    y: createScale(options.yKind, yRange, top + height, top),
    yTicks,
  };
}

function rangeOf(values: readonly number[], kind: ScaleKind): Range {
  if (values.length === 0) return kind === "log" ? { min: 1, max: 10 } : { min: 0, max: 1 };
  return { min: values.reduce((a, b) => Math.min(a, b)), max: values.reduce((a, b) => Math.max(a, b)) };
}

function itemUnder(point: Point, size: Size, options: ScatterOptions): ScatterItem | null {
  const items = shownItems(options);
  const { x, y } = layout(size, options, items);
  let best: ScatterItem | null = null;
  let reach = REACH_PX;
  for (const item of items) {
    const distance = Math.hypot(x.toPixel(item.x) - point.x, y.toPixel(item.y) - point.y);
    if (distance > reach) continue;
    reach = distance;
    best = item;
  }
  return best;
}
