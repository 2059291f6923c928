/** Parallel coordinates: one axis a setting or result, one line a run; dragging along an axis keeps the lines that pass there. */

import { brushBetween, brushParts, passes } from "./brush.ts";
import type { Brush } from "./brush.ts";
import { mountChart } from "./canvas.ts";
import type { Chart, DragHandler, Point, Size } from "./canvas.ts";
import { BAR_WIDTH, drawColorBar, fitText, shadeColor, shadeOf } from "./color-bar.ts";
import type { ColorScale } from "./color-bar.ts";
import { formatNumber } from "./format.ts";
import { slotColor } from "./palette.ts";
import { textWidth } from "./renderer.ts";
import type { Box, Renderer } from "./renderer.ts";
import type { ChartTheme } from "./theme.ts";
import type { TooltipContent } from "./tooltip.ts";
import { axisPixels, categoryName, createValueAxis } from "./value-axis.ts";
import type { AxisOptions, AxisPixels, AxisValue, ValueAxis } from "./value-axis.ts";

export interface ParallelItem {
  readonly id: string;
  readonly label: string;
  readonly slot: number;
  /** One per axis; null where the item has none. */
  readonly values: readonly AxisValue[];
}

export interface ParallelOptions {
  readonly label: string;
  /** A note stands under the name. */
  readonly axes: readonly (AxisOptions & { readonly note?: string })[];
  readonly items: readonly ParallelItem[];
  /** Colour by this axis; null gives every item its own colour. */
  readonly colorAxis: number | null;
  /** What is better on that axis; null where nobody knows. */
  readonly goal: "min" | "max" | null;
  readonly brushes: ReadonlyMap<number, Brush>;
  readonly highlighted: string | null;
  readonly onBrush?: (brushes: ReadonlyMap<number, Brush>) => void;
  readonly onItem?: (id: string) => void;
}

interface Line {
  readonly item: ParallelItem;
  readonly shade: number | null;
  readonly isBest: boolean;
  /** Pixels, one per axis. */
  readonly ys: readonly number[];
}

interface Layout {
  readonly box: Box;
  readonly axes: readonly ValueAxis[];
  readonly xs: readonly number[];
  readonly pixels: AxisPixels;
  readonly color: ColorScale | null;
  /** In the order of drawing: the best last. */
  readonly lines: readonly Line[];
}

const TOP = 42;
const BOTTOM = 14;
const LANE_PX = 17;
const AXIS_REACH_PX = 14;
const LINE_REACH_PX = 7;
const SMALLEST_BRUSH_PX = 3;
const NUDGE = 0.05;
const MOST_BEST = 10;
/** More lines than this are one pixel wide. */
const MOST_WIDE = 150;
/** As many lines that are left out are drawn during a drag. */
const MOST_LEFT_OUT = 200;
/** Lines of one category are spread over this part of its room, up to so many pixels. */
const SPREAD = 0.4;
const MOST_SPREAD_PX = 36;

export function createParallel(
  root: HTMLElement,
  options: ParallelOptions,
): Chart<ParallelOptions> {
  let hovered: string | null = null;
  let live: ReadonlyMap<number, Brush> | null = null;
  let chosenAxis: number | null = null;
  let made: {
    readonly options: ParallelOptions;
    readonly size: Size;
    readonly view: Layout;
  } | null = null;
  return mountChart(root, options, (current, redraw) => {
    const brushes = (): ReadonlyMap<number, Brush> => live ?? current().brushes;
    // Brushing and hovering draw the same lines many times.
    const layoutOf = (size: Size): Layout => {
      if (
        made?.options !== current() ||
        made.size.width !== size.width ||
        made.size.height !== size.height
      )
        made = { options: current(), size, view: parallelLayout(size, current()) };
      return made.view;
    };
    const show = (item: ParallelItem | null): TooltipContent | null => {
      if ((item?.id ?? null) !== hovered) redraw();
      hovered = item?.id ?? null;
      if (item === null) return null;
      return {
        title: item.label,
        rows: current().axes.map(({ name, isMeasured }, index) => ({
          label: name,
          value: valueText(item.values[index] ?? null, isMeasured),
        })),
      };
    };
    const commit = (next: ReadonlyMap<number, Brush>): void => {
      live = null;
      redraw();
      current().onBrush?.(next);
    };
    return {
      label: () => {
        const { label, items, axes } = current();
        const item = items.find(({ id }) => id === hovered);
        const said =
          item === undefined
            ? ""
            : `; ${item.label}: ${axes.map(({ name, isMeasured }, index) => `${name} ${valueText(item.values[index] ?? null, isMeasured)}`).join(", ")}`;
        return `${label}: ${items.length} items over ${axes.map(({ name }) => name).join(", ")}${said}`;
      },
      draw: (renderer, size, theme) =>
        drawParallel(renderer, layoutOf(size), current(), theme, {
          brushes: brushes(),
          hovered,
          chosenAxis,
          isMoving: live !== null,
        }),
      hover: (point, size) => {
        if (point === null) chosenAxis = null;
        return show(point === null ? null : itemUnder(point, layoutOf(size), brushes()));
      },
      click: (point, size) => {
        const view = layoutOf(size);
        // A press on an axis is a brush.
        const found = axisUnder(point, view) === null ? itemUnder(point, view, brushes()) : null;
        if (found !== null) current().onItem?.(found.id);
      },
      drag: (point, size) =>
        brushDrag(point, layoutOf(size), current().brushes, (next, isOver) => {
          if (isOver) return commit(next);
          live = next;
          redraw();
        }),
      key: (event, size) => {
        const view = layoutOf(size);
        if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
          const step = event.key === "ArrowRight" ? 1 : -1;
          chosenAxis =
            chosenAxis === null
              ? step > 0
                ? 0
                : view.axes.length - 1
              : Math.max(0, Math.min(view.axes.length - 1, chosenAxis + step));
          redraw();
          return true;
        }
        if (event.key === "Escape" && brushes().size > 0) {
          const next = new Map(brushes());
          if (chosenAxis === null || !next.delete(chosenAxis)) next.clear();
          commit(next);
          return true;
        }
        if (event.key === "Enter" && hovered !== null) {
          current().onItem?.(hovered);
          return true;
        }
        if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return false;
        if (event.shiftKey && chosenAxis !== null) {
          commit(nudged(view, chosenAxis, brushes(), event.key === "ArrowUp"));
          return true;
        }
        const kept = view.lines.filter(({ item }) => isKept(item, brushes()));
        const at = kept.findIndex(({ item }) => item.id === hovered);
        const next =
          kept[
            at < 0
              ? kept.length - 1
              : Math.max(0, Math.min(kept.length - 1, at + (event.key === "ArrowUp" ? 1 : -1)))
          ];
        return next === undefined
          ? false
          : { content: show(next.item), point: { x: view.xs.at(-1)!, y: view.box.top } };
      },
    };
  });
}

/** Whether an item passes through every brush. */
export function isKept({ values }: ParallelItem, brushes: ReadonlyMap<number, Brush>): boolean {
  for (const [index, brush] of brushes) if (!passes(brush, values[index] ?? null)) return false;
  return true;
}

/** Where items stand among each other: from the worst to the best, those without a value first, and how many at the end are the best. */
export function drawingOrder(
  shades: readonly (number | null)[],
  places: readonly number[],
  hasGoal: boolean,
): { readonly order: readonly number[]; readonly numBest: number } {
  const order = shades
    .map((_, index) => index)
    .sort(
      (one, other) => (shades[one] ?? -1) - (shades[other] ?? -1) || places[one]! - places[other]!,
    );
  const numKnown = shades.filter((shade) => shade !== null).length;
  return {
    order,
    numBest:
      hasGoal && numKnown > 3 ? Math.min(MOST_BEST, Math.max(1, Math.ceil(numKnown / 10))) : 0,
  };
}

export function parallelLayout(
  size: Size,
  { axes: asked, items, colorAxis, goal }: ParallelOptions,
): Layout {
  const right = colorAxis === null ? 28 : BAR_WIDTH + 34;
  const box = {
    left: 30,
    top: TOP,
    width: Math.max(1, size.width - 30 - right),
    height: Math.max(1, size.height - TOP - BOTTOM),
  };
  const stride = asked.length > 1 ? box.width / (asked.length - 1) : 0;
  const axes = asked.map((one, index) =>
    createValueAxis(
      one,
      items.map(({ values }) => values[index] ?? null),
    ),
  );
  // The scales of all axes are of one length, whichever has something beside it.
  const pixels = axisPixels(
    axes.flatMap(({ lanes }) => lanes),
    box.top + box.height,
    box.top,
    LANE_PX,
  );
  const color = colorAxis === null ? null : { axis: axes[colorAxis]!, isLowBest: goal === "min" };
  const shades = items.map(({ values }) =>
    color === null ? null : shadeOf(color, values[colorAxis!] ?? null),
  );
  const sign = goal === "min" ? -1 : 1;
  const places = items.map(({ values }) =>
    color === null ? 0 : sign * color.axis.place(values[colorAxis!] ?? null),
  );
  const { order, numBest } = drawingOrder(shades, places, color !== null && goal !== null);
  return {
    box,
    axes,
    pixels,
    color,
    xs: asked.map((_, index) => Math.round(box.left + index * stride) + 0.5),
    lines: order.map((index, rank) => {
      const item = items[index]!;
      // Lines through one category lie beside each other, those with low results lower.
      const share =
        order.length > 1 ? (rank / (order.length - 1) - 0.5) * (goal === "min" ? 1 : -1) : 0;
      const ys = axes.map((axis, at) => {
        const position = axis.place(item.values[at] ?? null);
        const room =
          axis.kind === "category" && position >= 0
            ? Math.min(MOST_SPREAD_PX, (SPREAD * (pixels.low - pixels.high)) / axis.ticks.length)
            : 0;
        return pixels.toPixel(position) + room * share;
      });
      return { item, shade: shades[index]!, isBest: rank >= order.length - numBest, ys };
    }),
  };
}

interface Shown {
  readonly brushes: ReadonlyMap<number, Brush>;
  readonly hovered: string | null;
  readonly chosenAxis: number | null;
  /** While somebody drags. */
  readonly isMoving: boolean;
}

export function drawParallel(
  renderer: Renderer,
  view: Layout,
  options: ParallelOptions,
  theme: ChartTheme,
  { brushes, hovered, chosenAxis, isMoving }: Shown,
): void {
  const [kept, others]: [Line[], Line[]] = [[], []];
  // During a drag a part of what is left out is enough: always the same lines, so that nothing flickers.
  const every = isMoving ? Math.ceil(view.lines.length / MOST_LEFT_OUT) : 1;
  view.lines.forEach((line, index) => {
    if (isKept(line.item, brushes)) kept.push(line);
    else if (index % every === 0) others.push(line);
  });
  // Without a GPU, lines wider than a pixel of the screen take ten times as long.
  const thin = isMoving ? 1 / (globalThis.devicePixelRatio || 1) : 1;
  drawLines(renderer, view, others, { stroke: theme.line, width: thin, alpha: 0.7 });
  const found = view.lines.find(({ item }) => item.id === (hovered ?? options.highlighted));
  // The chosen run is marked all the time; only under the pointer do the others step back.
  const faint = hovered === null ? 1 : 0.5;
  const alpha = (kept.length > 400 ? 0.55 : kept.length > 100 ? 0.65 : 0.75) * faint;
  const width = view.lines.length > MOST_WIDE ? thin : 1.25;
  const colorOf = ({ item, shade }: Line): string =>
    view.color === null ? slotColor(item.slot, theme.isDark) : shadeColor(shade, theme);
  const best = kept.filter(({ isBest }) => isBest);
  for (const [stroke, lines] of batches(
    kept.filter(({ isBest }) => !isBest),
    colorOf,
  ))
    drawLines(renderer, view, lines, { stroke, width, alpha });
  // A rim in the page's colour lifts the best off the others.
  if (!isMoving)
    drawLines(renderer, view, best, { stroke: theme.surface, width: 4, alpha: 0.8 * faint });
  for (const [stroke, lines] of batches(best, colorOf))
    drawLines(renderer, view, lines, { stroke, width: 2.25, alpha: faint });
  if (found !== undefined) {
    drawLines(renderer, view, [found], { stroke: theme.surface, width: 6, alpha: 0.9 });
    drawLines(renderer, view, [found], { stroke: colorOf(found), width: 3, alpha: 1 });
  }
  view.axes.forEach((axis, index) =>
    drawAxis(
      renderer,
      view,
      axis,
      index,
      {
        brush: brushes.get(index),
        note: options.axes[index]?.note,
        isChosen: index === chosenAxis,
      },
      theme,
    ),
  );
  if (view.color !== null) {
    const { high, low } = view.pixels;
    drawColorBar(
      renderer,
      {
        left: view.box.left + view.box.width + 34,
        top: high,
        width: BAR_WIDTH,
        height: low - high,
      },
      view.color,
      theme,
    );
  }
}

/** Neighbours of one colour, to draw them at once. */
function batches(
  lines: readonly Line[],
  colorOf: (line: Line) => string,
): readonly (readonly [string, readonly Line[]])[] {
  const found: [string, Line[]][] = [];
  for (const line of lines) {
    const color = colorOf(line);
    if (found.at(-1)?.[0] === color) found.at(-1)![1].push(line);
    else found.push([color, [line]]);
  }
  return found;
}

function drawLines(
  renderer: Renderer,
  { xs }: Layout,
  lines: readonly Line[],
  ink: { readonly stroke: string; readonly width: number; readonly alpha: number },
): void {
  if (lines.length === 0) return;
  renderer.path({ ...ink, cap: "butt" }, (sink) => {
    for (const { ys } of lines) {
      for (let index = 0; index < xs.length; index++) {
        if (index === 0) sink.moveTo(xs[0]!, ys[0]!);
        else sink.lineTo(xs[index]!, ys[index]!);
      }
    }
  });
}

interface AxisState {
  readonly brush: Brush | undefined;
  readonly note: string | undefined;
  readonly isChosen: boolean;
}

function drawAxis(
  renderer: Renderer,
  view: Layout,
  axis: ValueAxis,
  index: number,
  { brush, note, isChosen }: AxisState,
  theme: ChartTheme,
): void {
  const { pixels } = view;
  const x = view.xs[index]!;
  renderer.path(
    {
      stroke: isChosen ? theme.accent : theme.muted,
      width: isChosen ? 2 : 1,
      alpha: isChosen ? 1 : 0.7,
    },
    (sink) => {
      sink.moveTo(x, pixels.high);
      sink.lineTo(x, pixels.low);
    },
  );
  for (const [from, to] of brush === undefined ? [] : brushParts(brush, axis, pixels)) {
    renderer.rect(
      { left: x - 7, top: from, width: 14, height: to - from },
      { fill: theme.accent, alpha: 0.22, stroke: theme.accent },
    );
  }
  const isLast = index === view.axes.length - 1;
  const align = index === 0 ? "left" : isLast ? "right" : "center";
  const edge = index === 0 ? -view.box.left + 6 : isLast ? 30 : 0;
  const room = view.box.width / Math.max(1, view.axes.length - 1) - 8;
  renderer.text(x + edge, 12, fitText(axis.name, room), {
    fill: theme.ink,
    align,
    weight: 600,
    size: 11,
  });
  if (note !== undefined)
    renderer.text(x + edge, 26, fitText(note, room, 10), { fill: theme.muted, align, size: 10 });
  const every = Math.ceil(
    axis.ticks.length / Math.max(2, Math.floor((pixels.low - pixels.high) / 14)),
  );
  const label = (y: number, text: string, fill: string): void => {
    const fitted = fitText(text, 84, 10);
    const width = textWidth(fitted, 10) + 4;
    renderer.rect(
      { left: isLast ? x - 7 - width : x + 5, top: y - 6.5, width, height: 13 },
      { fill: theme.surface, alpha: 0.8 },
    );
    renderer.text(isLast ? x - 9 : x + 7, y, fitted, {
      fill,
      size: 10,
      align: isLast ? "right" : "left",
    });
  };
  axis.ticks.forEach((tick, at) => {
    if (at % every === 0) label(pixels.toPixel(tick.position), tick.label, theme.ink);
  });
  for (const lane of axis.lanes) {
    const y = pixels.toPixel(lane.position);
    renderer.circle(x, y, 2.5, { fill: theme.surface, stroke: theme.warning });
    label(y, lane.label, theme.warning);
  }
}

function itemUnder(
  point: Point,
  view: Layout,
  brushes: ReadonlyMap<number, Brush>,
): ParallelItem | null {
  const right = view.xs.findIndex((x) => x >= point.x);
  if (right < 1) return null;
  const share = (point.x - view.xs[right - 1]!) / (view.xs[right]! - view.xs[right - 1]!);
  let best: ParallelItem | null = null;
  let reach = LINE_REACH_PX;
  for (const { item, ys } of view.lines) {
    const [from, to] = [ys[right - 1]!, ys[right]!];
    const distance = Math.abs(from + (to - from) * share - point.y);
    // Of two that are equally near, the one drawn later is seen.
    if (distance > reach || !isKept(item, brushes)) continue;
    reach = distance;
    best = item;
  }
  return best;
}

function axisUnder(point: Point, view: Layout): number | null {
  const index = view.xs.findIndex((x) => Math.abs(x - point.x) <= AXIS_REACH_PX);
  return index < 0 ? null : index;
}

function brushDrag(
  start: Point,
  view: Layout,
  brushes: ReadonlyMap<number, Brush>,
  changed: (brushes: ReadonlyMap<number, Brush>, isOver: boolean) => void,
): DragHandler | null {
  const index = axisUnder(start, view);
  if (index === null) return null;
  const axis = view.axes[index]!;
  const at = (point: Point): ReadonlyMap<number, Brush> => {
    const next = new Map(brushes);
    // A press without a drag takes the brush away, or keeps the category under it.
    const isPress = Math.abs(point.y - start.y) < SMALLEST_BRUSH_PX;
    const brush = isPress
      ? next.has(index)
        ? null
        : brushBetween(axis, view.pixels, start.y - 7, start.y + 7)
      : brushBetween(axis, view.pixels, start.y, point.y);
    if (brush === null || (isPress && brush.names.length === 0)) next.delete(index);
    else next.set(index, isPress ? { ...brush, range: null } : brush);
    return next;
  };
  return { move: (point) => changed(at(point), false), end: (point) => changed(at(point), true) };
}

/** The brush of an axis with its lower end moved up, or its upper end moved down: what the keyboard does instead of a drag. */
function nudged(
  { axes, pixels }: Layout,
  index: number,
  brushes: ReadonlyMap<number, Brush>,
  isUp: boolean,
): ReadonlyMap<number, Brush> {
  const axis = axes[index]!;
  const step = axis.kind === "category" ? 1 / axis.ticks.length : NUDGE;
  const parts = brushes.has(index)
    ? brushParts(brushes.get(index)!, axis, pixels).flat().map(pixels.toPosition)
    : [0, 1];
  const [low, high] = [Math.min(...parts), Math.max(...parts)];
  const brush = brushBetween(
    axis,
    pixels,
    pixels.toPixel(isUp ? Math.min(low + step, high) : low),
    pixels.toPixel(isUp ? high : Math.max(high - step, low)),
  );
  const next = new Map(brushes);
  if (brush === null) next.delete(index);
  else next.set(index, brush);
  return next;
}

/** A result as metrics are written; a setting as somebody gave it. */
export function valueText(value: AxisValue, isMeasured = false): string {
  if (value === null) return "—";
  return typeof value === "number" && isMeasured ? formatNumber(value) : categoryName(value);
}
