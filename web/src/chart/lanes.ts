/** A timeline in swim lanes: what each worker, stream or phase was doing when. */

import { AXIS_HEIGHT, drawAxisX, verticalLine } from "./axes.ts";
import { mountChart } from "./canvas.ts";
import type { Chart, Point, Size } from "./canvas.ts";
import { formatDuration } from "./format.ts";
import { slotColor, slotCss } from "./palette.ts";
import { textWidth } from "./renderer.ts";
import type { Box, Renderer } from "./renderer.ts";
import { createScale } from "./scale.ts";
import type { Range, Scale } from "./scale.ts";
import type { ChartTheme } from "./theme.ts";
import { positionLabel, ticks } from "./ticks.ts";
import type { AxisFormat } from "./ticks.ts";
import type { TooltipContent } from "./tooltip.ts";

export interface Span {
  readonly from: number;
  /** End; one that still runs ends at the newest time known. */
  readonly to: number;
  readonly label: string;
  readonly slot: number;
}

/** Readings at even times, drawn as an area that fills its lane at `max`. */
export interface Level {
  readonly start: number;
  readonly period: number;
  /** Nan where there was no reading. */
  readonly values: Float64Array;
  readonly max: number;
  readonly slot: number;
  readonly unit: string;
}

export interface Lane {
  readonly name: string;
  /** Ascending by start; spans of one lane do not overlap. */
  readonly spans: readonly Span[];
  readonly levels?: readonly Level[];
}

export interface LanesOptions {
  readonly label: string;
  readonly lanes: readonly Lane[];
  readonly format: AxisFormat;
  readonly range: Range | null;
  readonly onZoom?: (range: Range) => void;
  readonly onSpan?: (lane: string, span: Span) => void;
}

const LANE_GAP = 4;
const MAX_LANE = 26;
const SMALLEST_DRAG_PX = 4;

export function createLanes(root: HTMLElement, options: LanesOptions): Chart<LanesOptions> {
  let selection: Range | null = null;
  return mountChart(root, options, (current, redraw) => ({
    label: () => `${current().label}: ${current().lanes.length} lanes`,
    draw: (renderer, size, theme) => {
      drawLanes(renderer, size, current(), theme);
      if (selection === null) return;
      const { box } = layout(size, current());
      renderer.rect(
        {
          left: selection.min,
          top: box.top,
          width: selection.max - selection.min,
          height: box.height,
        },
        { fill: theme.accent, alpha: 0.14 },
      );
    },
    hover: (point, size) => {
      const found = point === null ? null : spanUnder(point, size, current());
      if (found === null) return point === null ? null : levelContent(point, size, current());
      const { lane, span } = found;
      return {
        title: span.label,
        rows: [
          {
            label: lane.name,
            value: formatDuration(span.to - span.from),
            color: slotCss(span.slot),
          },
        ],
        foot: `from ${positionLabel(span.from, current().format)}`,
      };
    },
    click: (point, size) => {
      const found = spanUnder(point, size, current());
      if (found !== null) current().onSpan?.(found.lane.name, found.span);
    },
    drag: (start, size) => ({
      move: (point) => {
        selection = { min: Math.min(start.x, point.x), max: Math.max(start.x, point.x) };
        redraw();
      },
      end: () => {
        const chosen = selection;
        selection = null;
        redraw();
        if (chosen === null || chosen.max - chosen.min < SMALLEST_DRAG_PX) return;
        const { x } = layout(size, current());
        current().onZoom?.({ min: x.toValue(chosen.min), max: x.toValue(chosen.max) });
      },
    }),
  }));
}

export interface Block {
  readonly left: number;
  readonly width: number;
  readonly span: Span;
  /** Spans drawn as one because they share a pixel. */
  readonly num: number;
}

/** Spans as boxes of at least a pixel; runs of the same colour that fall into one pixel become one box. */
export function blocks(spans: readonly Span[], x: Scale, box: Box): Block[] {
  const right = box.left + box.width;
  const found: Block[] = [];
  for (const span of spans) {
    const from = Math.max(box.left, x.toPixel(span.from));
    const to = Math.min(right, x.toPixel(span.to));
    if (to < box.left || from > right) continue;
    const last = found.at(-1);
    if (last !== undefined && last.span.slot === span.slot && to - last.left < 1.5) {
      found[found.length - 1] = { ...last, width: Math.max(1, to - last.left), num: last.num + 1 };
    } else {
      found.push({ left: from, width: Math.max(1, to - from), span, num: 1 });
    }
  }
  return found;
}

export function drawLanes(
  renderer: Renderer,
  size: Size,
  options: LanesOptions,
  theme: ChartTheme,
): void {
  const { box, x, height } = layout(size, options);
  drawAxisX(
    renderer,
    box,
    x,
    ticks("linear", x, Math.max(2, box.width / 90), options.format),
    theme,
  );
  options.lanes.forEach((lane, row) => {
    const top = box.top + row * height;
    renderer.clip({ left: 0, top, width: box.left - 6, height }, () => {
      renderer.text(box.left - 8, top + height / 2, lane.name, {
        fill: theme.muted,
        align: "right",
        size: 10.5,
      });
    });
    for (const level of lane.levels ?? [])
      drawLevel(
        renderer,
        level,
        { x, box, top: top + LANE_GAP / 2, height: height - LANE_GAP },
        theme,
      );
    for (const { left, width, span, num } of blocks(lane.spans, x, box)) {
      const part = {
        left,
        top: top + LANE_GAP / 2,
        width: width > 3 ? width - 0.75 : width,
        height: height - LANE_GAP,
      };
      const fill = slotColor(span.slot, theme.isDark);
      renderer.rect(part, { fill, alpha: 0.5 });
      if (width > 12) renderer.rect({ ...part, width: 2 }, { fill });
      if (num === 1 && width > textWidth(span.label, 10) + 10 && height > 14) {
        renderer.text(left + 6, top + height / 2, span.label, { fill: theme.ink, size: 10 });
      }
    }
  });
  verticalLine(renderer, Math.round(box.left) + 0.5, box, theme.line);
}

interface LevelPlace {
  readonly x: Scale;
  readonly box: Box;
  readonly top: number;
  readonly height: number;
}

function drawLevel(
  renderer: Renderer,
  { start, period, values, max, slot }: Level,
  { x, box, top, height }: LevelPlace,
  theme: ChartTheme,
): void {
  const fill = slotColor(slot, theme.isDark);
  values.forEach((value, index) => {
    const from = Math.max(box.left, x.toPixel(start + index * period));
    const to = Math.min(box.left + box.width, x.toPixel(start + (index + 1) * period));
    if (to <= from) return;
    if (Number.isNaN(value)) {
      // No reading is not idle: a thin line in the middle, no bar at the bottom.
      renderer.rect(
        { left: from, top: top + height / 2, width: to - from, height: 1 },
        { fill: theme.muted, alpha: 0.5 },
      );
      return;
    }
    const filled = height * Math.max(0, Math.min(1, value / max));
    renderer.rect(
      {
        left: from,
        top: top + height - Math.max(1, filled),
        width: to - from + 0.3,
        height: Math.max(1, filled),
      },
      { fill, alpha: 0.6 },
    );
  });
}

function levelContent(point: Point, size: Size, options: LanesOptions): TooltipContent | null {
  const { box, x, height } = layout(size, options);
  const lane = options.lanes[Math.floor((point.y - box.top) / height)];
  if (lane === undefined || point.x < box.left) return null;
  const at = x.toValue(point.x);
  for (const { start, period, values, slot, unit } of lane.levels ?? []) {
    const value = values[Math.floor((at - start) / period)];
    if (value === undefined) continue;
    return {
      title: positionLabel(at, options.format),
      rows: [
        {
          label: lane.name,
          value: Number.isNaN(value) ? "no reading" : `${value.toFixed(0)}${unit}`,
          color: slotCss(slot),
        },
      ],
    };
  }
  return null;
}

function layout(size: Size, options: LanesOptions): { box: Box; x: Scale; height: number } {
  const { lanes } = options;
  const left = Math.min(
    Math.max(30, ...lanes.map(({ name }) => textWidth(name, 10.5) + 14)),
    150,
    size.width * 0.35,
  );
  const room = Math.max(1, size.height - AXIS_HEIGHT - 6);
  const height = Math.min(MAX_LANE, room / Math.max(1, lanes.length));
  const box = {
    left,
    top: 6,
    width: Math.max(1, size.width - left - 12),
    height: height * Math.max(1, lanes.length),
  };
  return {
    box,
    height,
    x: createScale("linear", options.range ?? extent(lanes), left, left + box.width),
  };
}

function extent(lanes: readonly Lane[]): Range {
  let min = Infinity;
  let max = -Infinity;
  for (const { spans, levels = [] } of lanes) {
    const reaches = [
      ...spans,
      ...levels.map(({ start, period, values }) => ({
        from: start,
        to: start + period * values.length,
      })),
    ];
    for (const { from, to } of reaches) {
      if (from < min) min = from;
      if (to > max) max = to;
    }
  }
  if (!(min <= max)) return { min: 0, max: 1 };
  // Seconds: what took no time is in the middle of one.
  return min < max ? { min, max } : { min: min - 0.5, max: max + 0.5 };
}

function spanUnder(
  point: Point,
  size: Size,
  options: LanesOptions,
): { lane: Lane; span: Span } | null {
  const { box, x, height } = layout(size, options);
  const lane = options.lanes[Math.floor((point.y - box.top) / height)];
  if (lane === undefined || point.x < box.left) return null;
  const block = blocks(lane.spans, x, box).find(
    ({ left, width }) => point.x >= left - 0.5 && point.x <= left + width + 0.5,
  );
  return block === undefined ? null : { lane, span: block.span };
}
