/** Any two values of each item against each other, coloured by a third. */

import { mountChart } from "./canvas.ts";
import type { Chart, Point, Size } from "./canvas.ts";
import { BAR_WIDTH, drawColorBar, fitText, valueColor } from "./color-bar.ts";
import type { ColorScale } from "./color-bar.ts";
import { slotColor } from "./palette.ts";
import { valueText } from "./parallel.ts";
import { textWidth } from "./renderer.ts";
import type { Box, Renderer } from "./renderer.ts";
import type { ChartTheme } from "./theme.ts";
import type { TooltipContent } from "./tooltip.ts";
import { axisPixels, createValueAxis } from "./value-axis.ts";
import type { AxisOptions, AxisPixels, AxisValue, ValueAxis } from "./value-axis.ts";

export interface ScatterItem {
  readonly id: string;
  readonly label: string;
  /** Null for one without a colour of its own. */
  readonly slot: number | null;
  readonly x: AxisValue;
  readonly y: AxisValue;
  readonly color: AxisValue;
}

/** Items with one x, or about one: their mean and its interval. */
export interface ScatterLevel {
  readonly x: AxisValue;
  readonly mean: number | null;
  readonly low: number | null;
  readonly high: number | null;
}

export interface ScatterOptions {
  readonly label: string;
  readonly items: readonly ScatterItem[];
  readonly x: AxisOptions;
  readonly y: AxisOptions;
  /** Null gives every item its own colour. */
  readonly color: (AxisOptions & { readonly isLowBest: boolean }) | null;
  readonly levels: readonly ScatterLevel[];
  /** Stands over the points. */
  readonly note: string;
  readonly highlighted: string | null;
  readonly onItem?: (id: string) => void;
}

interface Layout {
  readonly box: Box;
  readonly x: ValueAxis;
  readonly y: ValueAxis;
  readonly xs: AxisPixels;
  readonly ys: AxisPixels;
  readonly color: ColorScale | null;
  readonly points: readonly {
    readonly item: ScatterItem;
    readonly x: number;
    readonly y: number;
  }[];
}

const REACH_PX = 14;
const TOP = 24;
const BOTTOM = 38;
const LANE_X_PX = 40;
const LANE_Y_PX = 17;
/** Points of one category are spread over this part of its room. */
const JITTER = 0.5;

export function createScatter(root: HTMLElement, options: ScatterOptions): Chart<ScatterOptions> {
  let hovered: string | null = null;
  let made: {
    readonly options: ScatterOptions;
    readonly size: Size;
    readonly view: Layout;
  } | null = null;
  return mountChart(root, options, (current, redraw) => {
    const layoutOf = (size: Size): Layout => {
      if (
        made?.options !== current() ||
        made.size.width !== size.width ||
        made.size.height !== size.height
      )
        made = { options: current(), size, view: scatterLayout(size, current()) };
      return made.view;
    };
    const show = (item: ScatterItem | null): TooltipContent | null => {
      if ((item?.id ?? null) !== hovered) redraw();
      hovered = item?.id ?? null;
      if (item === null) return null;
      const { x, y, color } = current();
      const rows = [
        { label: x.name, value: valueText(item.x, x.isMeasured) },
        { label: y.name, value: valueText(item.y, y.isMeasured) },
      ];
      return {
        title: item.label,
        rows:
          color === null
            ? rows
            : [...rows, { label: color.name, value: valueText(item.color, color.isMeasured) }],
      };
    };
    return {
      label: () => {
        const { label, items, x, y } = current();
        const item = items.find(({ id }) => id === hovered);
        const said =
          item === undefined
            ? ""
            : `; ${item.label}: ${x.name} ${valueText(item.x, x.isMeasured)}, ${y.name} ${valueText(item.y, y.isMeasured)}`;
        return `${label}: ${items.length} points of ${y.name} by ${x.name}${said}`;
      },
      draw: (renderer, size, theme) =>
        drawScatter(
          renderer,
          size,
          layoutOf(size),
          current(),
          theme,
          hovered ?? current().highlighted,
        ),
      hover: (point, size) => show(point === null ? null : itemUnder(point, layoutOf(size))),
      click: (point, size) => {
        const found = itemUnder(point, layoutOf(size));
        if (found !== null) current().onItem?.(found.id);
      },
      key: (event, size) => {
        if (event.key === "Enter" && hovered !== null) {
          current().onItem?.(hovered);
          return true;
        }
        const step = ["ArrowRight", "ArrowUp"].includes(event.key)
          ? 1
          : ["ArrowLeft", "ArrowDown"].includes(event.key)
            ? -1
            : 0;
        if (step === 0) return false;
        const points = [...layoutOf(size).points].sort(
          (one, other) => one.x - other.x || one.y - other.y,
        );
        const at = points.findIndex(({ item }) => item.id === hovered);
        const next = points[at < 0 ? 0 : Math.max(0, Math.min(points.length - 1, at + step))];
        return next === undefined ? false : { content: show(next.item), point: next };
      },
    };
  });
}

/** Spearman's rank correlation of the finite pairs; null for fewer than three, or where one of them does not vary. */
export function rankCorrelation(x: readonly AxisValue[], y: readonly AxisValue[]): number | null {
  const pairs = x.flatMap((value, index) =>
    Number.isFinite(value) && Number.isFinite(y[index])
      ? [[value as number, y[index] as number] as const]
      : [],
  );
  if (pairs.length < 3) return null;
  const [a, b] = [ranks(pairs.map(([one]) => one)), ranks(pairs.map(([, other]) => other))];
  const mean = (pairs.length + 1) / 2;
  const sum = (one: readonly number[], other: readonly number[]): number =>
    one.reduce((total, value, index) => total + (value - mean) * (other[index]! - mean), 0);
  const both = sum(a, a) * sum(b, b);
  return both > 0 ? sum(a, b) / Math.sqrt(both) : null;
}

/** Places from 1 on; equal values share the mean of theirs. */
function ranks(values: readonly number[]): number[] {
  const order = values.map((_, index) => index).sort((one, other) => values[one]! - values[other]!);
  const found = new Array<number>(values.length);
  for (let start = 0, stop = 0; start < order.length; start = stop) {
    while (stop < order.length && values[order[stop]!] === values[order[start]!]) stop++;
    for (let at = start; at < stop; at++) found[order[at]!] = (start + stop + 1) / 2;
  }
  return found;
}

export function scatterLayout(size: Size, options: ScatterOptions): Layout {
  const { items } = options;
  const x = createValueAxis(
    options.x,
    items.map((item) => item.x),
  );
  const y = createValueAxis(
    options.y,
    items.map((item) => item.y),
  );
  const color =
    options.color === null
      ? null
      : {
          axis: createValueAxis(
            options.color,
            items.map((item) => item.color),
          ),
          isLowBest: options.color.isLowBest,
        };
  const left =
    Math.min(
      110,
      Math.max(...[...y.ticks, ...y.lanes].map(({ label }) => textWidth(label, 10.5)), 20),
    ) + 14;
  const box = {
    left,
    top: TOP,
    width: Math.max(1, size.width - left - (color === null ? 14 : BAR_WIDTH + 30)),
    height: Math.max(1, size.height - TOP - BOTTOM),
  };
  // A little air, so that no point lies on the frame.
  const xs = axisPixels(x.lanes, box.left + 10, box.left + box.width - 10, LANE_X_PX);
  const ys = axisPixels(y.lanes, box.top + box.height - 10, box.top + 10, LANE_Y_PX);
  const place = (axis: ValueAxis, pixels: AxisPixels, value: AxisValue, id: string): number => {
    const position = axis.place(value);
    const room =
      axis.kind === "category" && position >= 0
        ? (Math.abs(pixels.high - pixels.low) / axis.ticks.length) * JITTER
        : 0;
    return pixels.toPixel(position) + room * (shareOf(id) - 0.5);
  };
  return {
    box,
    x,
    y,
    xs,
    ys,
    color,
    // Those with a colour of their own lie over the others.
    points: [...items]
      .sort((one, other) => Number(one.slot !== null) - Number(other.slot !== null))
      .map((item) => ({
        item,
        x: place(x, xs, item.x, item.id),
        y: place(y, ys, item.y, `${item.id}y`),
      })),
  };
}

/** The same share from 0 to 1 for the same text. */
function shareOf(text: string): number {
  let state = 0x811c9dc5;
  for (let index = 0; index < text.length; index++)
    state = Math.imul(state ^ text.charCodeAt(index), 0x01000193) >>> 0;
  return (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) >>> 0) / 2 ** 32;
}

export function drawScatter(
  renderer: Renderer,
  size: Size,
  view: Layout,
  options: ScatterOptions,
  theme: ChartTheme,
  hovered: string | null,
): void {
  const { box, x, y, xs, ys, points } = view;
  drawFrame(renderer, view, theme);
  renderer.text(box.left + box.width, size.height - 7, fitText(x.name, box.width), {
    fill: theme.ink,
    align: "right",
    size: 10.5,
    weight: 600,
  });
  renderer.text(4, 9, fitText(y.name, box.width / 2), { fill: theme.ink, size: 10.5, weight: 600 });
  if (options.note !== "")
    renderer.text(box.left + box.width, 9, fitText(options.note, box.width / 2 + box.left), {
      fill: theme.ink,
      align: "right",
      size: 10.5,
    });
  const radius = points.length > 300 ? 2.5 : 4;
  const colorOf = (item: ScatterItem): string =>
    view.color !== null
      ? valueColor(view.color, item.color, theme)
      : item.slot === null
        ? theme.muted
        : slotColor(item.slot, theme.isDark);
  for (const point of points) {
    const isQuiet = view.color === null && point.item.slot === null;
    renderer.circle(point.x, point.y, isQuiet ? radius - 0.5 : radius, {
      fill: colorOf(point.item),
      alpha: isQuiet ? 0.45 : 0.85,
    });
  }
  drawLevels(
    renderer,
    options.levels.map((level) => ({ ...level, at: xs.toPixel(x.place(level.x)) })),
    (value) => ys.toPixel(y.place(value)),
    theme,
  );
  const found = points.find(({ item }) => item.id === hovered);
  if (found !== undefined)
    renderer.circle(found.x, found.y, 6, {
      fill: colorOf(found.item),
      stroke: theme.ink,
      width: 1.5,
    });
  if (view.color !== null)
    drawColorBar(
      renderer,
      {
        left: box.left + box.width + 26,
        top: box.top + 6,
        width: BAR_WIDTH,
        height: box.height - 12,
      },
      view.color,
      theme,
    );
}

function drawFrame(renderer: Renderer, { box, x, y, xs, ys }: Layout, theme: ChartTheme): void {
  const bottom = box.top + box.height;
  const line = (
    x1: number,
    y1: number,
    x2: number,
    y2: number,
    stroke: string,
    dash?: readonly number[],
  ): void =>
    renderer.path({ stroke, ...(dash === undefined ? {} : { dash }) }, (sink) => {
      sink.moveTo(x1, y1);
      sink.lineTo(x2, y2);
    });
  const everyY = Math.ceil(y.ticks.length / Math.max(2, box.height / 16));
  y.ticks.forEach(({ position, label }, index) => {
    const at = ys.toPixel(position);
    line(box.left, at, box.left + box.width, at, theme.grid);
    if (index % everyY === 0)
      renderer.text(box.left - 6, at, fitText(label, box.left - 10, 10.5), {
        fill: theme.muted,
        align: "right",
        size: 10.5,
      });
  });
  for (const { position, label } of y.lanes) {
    const at = ys.toPixel(position);
    line(box.left, at, box.left + box.width, at, theme.line, [2, 4]);
    renderer.text(box.left - 6, at, label, { fill: theme.warning, align: "right", size: 10.5 });
  }
  const room = x.kind === "category" ? (xs.high - xs.low) / x.ticks.length - 6 : 80;
  const widest = Math.max(...x.ticks.map(({ label }) => textWidth(label, 10.5)), 10);
  const everyX =
    x.kind === "category" && room < 24 ? Math.ceil(Math.min(widest, 60) / Math.max(1, room)) : 1;
  x.ticks.forEach(({ position, label }, index) => {
    const at = xs.toPixel(position);
    line(at, box.top, at, bottom, theme.grid);
    if (index % everyX === 0)
      renderer.text(at, bottom + 11, fitText(label, room * everyX, 10.5), {
        fill: theme.muted,
        align: "center",
        size: 10.5,
      });
  });
  for (const { position, label } of x.lanes) {
    const at = xs.toPixel(position);
    line(at, box.top, at, bottom, theme.line, [2, 4]);
    renderer.text(at, bottom + 11, label, { fill: theme.warning, align: "center", size: 10.5 });
  }
  line(box.left, bottom, box.left + box.width, bottom, theme.line);
  line(box.left, box.top, box.left, bottom, theme.line);
}

/** Means from left to right with their intervals. */
function drawLevels(
  renderer: Renderer,
  levels: readonly (ScatterLevel & { readonly at: number })[],
  toPixel: (value: number) => number,
  theme: ChartTheme,
): void {
  const known = levels
    .filter((level) => level.mean !== null)
    .sort((one, other) => one.at - other.at);
  renderer.path({ stroke: theme.ink, width: 1, alpha: 0.6, dash: [4, 3] }, (sink) =>
    known.forEach(({ at, mean }, index) =>
      index === 0 ? sink.moveTo(at, toPixel(mean!)) : sink.lineTo(at, toPixel(mean!)),
    ),
  );
  for (const { at, mean, low, high } of known) {
    renderer.path({ stroke: theme.ink, width: 2, cap: "butt" }, (sink) => {
      sink.moveTo(at - 9, toPixel(mean!));
      sink.lineTo(at + 9, toPixel(mean!));
      if (low === null || high === null) return;
      sink.moveTo(at, toPixel(low));
      sink.lineTo(at, toPixel(high));
    });
  }
}

function itemUnder(point: Point, { points }: Layout): ScatterItem | null {
  let best: ScatterItem | null = null;
  let reach = REACH_PX;
  for (const { item, x, y } of points) {
    const distance = Math.hypot(x - point.x, y - point.y);
    if (distance > reach) continue;
    reach = distance;
    best = item;
  }
  return best;
}
