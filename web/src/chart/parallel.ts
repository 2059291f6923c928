/** Parallel coordinates: one axis a setting or result, one line a run; dragging along an axis keeps the lines that pass there. */

import { mountChart } from "./canvas.ts";
import type { Chart, DragHandler, Point, Size } from "./canvas.ts";
import { formatNumber } from "./format.ts";
import { slotColor, slotCss } from "./palette.ts";
import { textWidth } from "./renderer.ts";
import type { Box, Renderer } from "./renderer.ts";
import { rampColor } from "./ramp.ts";
import type { ChartTheme } from "./theme.ts";
import { axisPosition, createParallelAxis } from "./parallel-axis.ts";
import type { AxisValue, ParallelAxis } from "./parallel-axis.ts";

export interface ParallelItem {
  readonly id: string;
  readonly label: string;
  readonly slot: number;
  /** One per axis; null where the item has none. */
  readonly values: readonly AxisValue[];
}

/** Part of an axis that is kept, as positions from 0 (bottom) to 1 (top). */
export interface Brush {
  readonly low: number;
  readonly high: number;
}

export interface ParallelOptions {
  readonly label: string;
  readonly axes: readonly { readonly name: string; readonly isLog?: boolean }[];
  readonly items: readonly ParallelItem[];
  /** Colour by the position on this axis; null gives every item its own colour. */
  readonly colorAxis: number | null;
  readonly brushes: ReadonlyMap<number, Brush>;
  readonly highlighted: string | null;
  readonly onBrush?: (brushes: ReadonlyMap<number, Brush>, keptIds: readonly string[]) => void;
  readonly onItem?: (id: string) => void;
}

interface Layout {
  readonly box: Box;
  readonly axes: readonly ParallelAxis[];
  readonly xs: readonly number[];
  toPixel(position: number): number;
}

const TOP = 30;
const BOTTOM = 12;
const AXIS_REACH_PX = 14;
const LINE_REACH_PX = 7;
const SMALLEST_BRUSH = 0.01;

export function createParallel(root: HTMLElement, options: ParallelOptions): Chart<ParallelOptions> {
  let hovered: string | null = null;
  let live: ReadonlyMap<number, Brush> | null = null;
  return mountChart(root, options, (current, redraw) => {
    const brushes = (): ReadonlyMap<number, Brush> => live ?? current().brushes;
    return {
      label: () => `${current().label}: ${current().items.length} items over ${current().axes.map(({ name }) => name).join(", ")}`,
      draw: (renderer, size, theme) => drawParallel(renderer, size, current(), theme, brushes(), hovered ?? current().highlighted),
      hover: (point, size) => {
        const found = point === null ? null : itemUnder(point, size, current(), brushes());
        if ((found?.id ?? null) !== hovered) redraw();
        hovered = found?.id ?? null;
        if (found === null) return null;
        const rows = current().axes.map(({ name }, index) => ({ label: name, value: valueText(found.values[index] ?? null) }));
        return { title: found.label, rows: rows.map((row, index) => (index === 0 ? { ...row, color: slotCss(found.slot) } : row)) };
      },
      click: (point, size) => {
        const found = itemUnder(point, size, current(), brushes());
        if (found !== null) current().onItem?.(found.id);
      },
      drag: (point, size) => brushDrag(point, size, current(), (next, isOver) => {
        live = isOver ? null : next;
        redraw();
        if (isOver) current().onBrush?.(next, keptIds(current(), next));
      }),
    };
  });
}

/** Ids of the items that pass through every brush; an item without a value on a brushed axis does not. */
export function keptIds({ axes, items }: Pick<ParallelOptions, "axes" | "items">, brushes: ReadonlyMap<number, Brush>): string[] {
  const built = buildAxes(axes, items);
  return items.filter((item) => isKept(item, built, brushes)).map(({ id }) => id);
}

export function drawParallel(
  renderer: Renderer,
  size: Size,
  options: ParallelOptions,
  theme: ChartTheme,
  brushes: ReadonlyMap<number, Brush>,
  hovered: string | null,
): void {
  const view = layout(size, options);
  const kept = options.items.filter((item) => isKept(item, view.axes, brushes));
  const keptSet = new Set(kept);
  const alpha = Math.max(0.25, Math.min(0.85, 14 / Math.max(1, kept.length)));
  for (const item of options.items) if (!keptSet.has(item)) drawItem(renderer, view, item, theme.line, 1, 0.6);
  for (const item of kept) drawItem(renderer, view, item, itemColor(item, options, view, theme), 1.25, hovered === null ? alpha : alpha * 0.35);
  const found = options.items.find(({ id }) => id === hovered);
  if (found !== undefined) drawItem(renderer, view, found, itemColor(found, options, view, theme), 2.75, 1);
  view.axes.forEach((axis, index) => drawAxis(renderer, view, axis, index, brushes.get(index), theme));
}

function drawItem(renderer: Renderer, view: Layout, item: ParallelItem, stroke: string, width: number, alpha: number): void {
  renderer.path({ stroke, width, alpha }, (sink) => {
    let isDown = false;
    view.axes.forEach((axis, index) => {
      const position = axisPosition(axis, item.values[index] ?? null);
      const [x, y] = [view.xs[index]!, position === null ? NaN : view.toPixel(position)];
      if (position === null) isDown = false;
      else if (isDown) sink.lineTo(x, y);
      else sink.moveTo(x, y);
      if (position !== null) isDown = true;
    });
  });
}

function drawAxis(renderer: Renderer, view: Layout, axis: ParallelAxis, index: number, brush: Brush | undefined, theme: ChartTheme): void {
  const x = view.xs[index]!;
  const { top, height } = view.box;
  renderer.path({ stroke: theme.muted, alpha: 0.6 }, (sink) => {
    sink.moveTo(x, top);
    sink.lineTo(x, top + height);
  });
  if (brush !== undefined) {
    const from = view.toPixel(brush.high);
    renderer.rect({ left: x - 7, top: from, width: 14, height: view.toPixel(brush.low) - from }, { fill: theme.accent, alpha: 0.22, stroke: theme.accent });
  }
  const isLast = index === view.axes.length - 1;
  const align = index === 0 ? "left" : isLast ? "right" : "center";
  const edge = index === 0 ? -10 : isLast ? 10 : 0;
  renderer.text(x + edge, 12, fitText(axis.name, view.box.width / Math.max(1, view.axes.length - 1) - 8), { fill: theme.ink, align, weight: 600, size: 11 });
  const room = height / 13;
  axis.ticks.slice(0, Math.max(2, Math.floor(room))).forEach(({ position, label }) => {
    const y = view.toPixel(position);
    const text = fitText(label, 84);
    const width = textWidth(text, 10) + 4;
    const left = isLast ? x - 7 - width : x + 5;
    renderer.rect({ left, top: y - 6.5, width, height: 13 }, { fill: theme.surface, alpha: 0.75 });
    renderer.text(isLast ? x - 9 : x + 7, y, text, { fill: theme.muted, size: 10, align: isLast ? "right" : "left" });
  });
}

function fitText(text: string, width: number): string {
  if (textWidth(text) <= width) return text;
  const num = Math.max(3, Math.floor((text.length * width) / textWidth(text)) - 1);
  return `…${text.slice(-num)}`;
}

function itemColor(item: ParallelItem, { colorAxis }: ParallelOptions, view: Layout, theme: ChartTheme): string {
  if (colorAxis === null) return slotColor(item.slot, theme.isDark);
  const position = axisPosition(view.axes[colorAxis]!, item.values[colorAxis] ?? null);
  // The pale end of the ramp would vanish on the page.
  return position === null ? theme.muted : rampColor(0.42 + position * 0.58, "sequential", theme.isDark);
}

function buildAxes(axes: ParallelOptions["axes"], items: readonly ParallelItem[]): ParallelAxis[] {
  return axes.map(({ name, isLog }, index) => createParallelAxis(name, items.map(({ values }) => values[index] ?? null), isLog ?? false));
}

function layout(size: Size, { axes, items }: ParallelOptions): Layout {
  const box = { left: 14, top: TOP, width: Math.max(1, size.width - 28), height: Math.max(1, size.height - TOP - BOTTOM) };
  const stride = axes.length > 1 ? box.width / (axes.length - 1) : 0;
  return {
    box,
    axes: buildAxes(axes, items),
    xs: axes.map((_, index) => Math.round(box.left + index * stride) + 0.5),
    toPixel: (position) => box.top + (1 - position) * box.height,
  };
}

function isKept(item: ParallelItem, axes: readonly ParallelAxis[], brushes: ReadonlyMap<number, Brush>): boolean {
  for (const [index, { low, high }] of brushes) {
    const position = axes[index] === undefined ? null : axisPosition(axes[index], item.values[index] ?? null);
    if (position === null || position < low || position > high) return false;
  }
  return true;
}

function itemUnder(point: Point, size: Size, options: ParallelOptions, brushes: ReadonlyMap<number, Brush>): ParallelItem | null {
  const view = layout(size, options);
  const right = view.xs.findIndex((x) => x >= point.x);
  if (right < 1) return null;
  const share = (point.x - view.xs[right - 1]!) / (view.xs[right]! - view.xs[right - 1]!);
  let best: ParallelItem | null = null;
  let reach = LINE_REACH_PX;
  for (const item of options.items) {
    const from = axisPosition(view.axes[right - 1]!, item.values[right - 1] ?? null);
    const to = axisPosition(view.axes[right]!, item.values[right] ?? null);
    if (from === null || to === null || !isKept(item, view.axes, brushes)) continue;
    const distance = Math.abs(view.toPixel(from + (to - from) * share) - point.y);
    if (distance > reach) continue;
    reach = distance;
    best = item;
  }
  return best;
}

function brushDrag(
  start: Point,
  size: Size,
  options: ParallelOptions,
  changed: (brushes: ReadonlyMap<number, Brush>, isOver: boolean) => void,
): DragHandler | null {
  const view = layout(size, options);
  const index = view.xs.findIndex((x) => Math.abs(x - start.x) <= AXIS_REACH_PX);
  if (index < 0) return null;
  const position = (point: Point): number => Math.max(0, Math.min(1, 1 - (point.y - view.box.top) / view.box.height));
  const from = position(start);
  const at = (point: Point): ReadonlyMap<number, Brush> => {
    const to = position(point);
    const next = new Map(options.brushes);
    // A press without a drag takes the brush away.
    if (Math.abs(to - from) < SMALLEST_BRUSH) next.delete(index);
    else next.set(index, { low: Math.min(from, to), high: Math.max(from, to) });
    return next;
  };
  return { move: (point) => changed(at(point), false), end: (point) => changed(at(point), true) };
}

function valueText(value: AxisValue): string {
  if (value === null) return "—";
  return typeof value === "number" ? formatNumber(value) : value;
}
