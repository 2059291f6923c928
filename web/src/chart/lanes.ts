/** A timeline in swim lanes: what each worker, stream or phase was doing when. */

import { AXIS_HEIGHT, drawAxisX, verticalLine } from "./axes.ts";
import { mountFigure } from "./figure.ts";
import type { Chart, Point, Size } from "./figure.ts";
import { formatDuration } from "./format.ts";
import { slotColor, slotCss } from "./palette.ts";
import { textWidth } from "./pen.ts";
import type { Box, Pen } from "./pen.ts";
import { createScale } from "./scale.ts";
import type { Range, Scale } from "./scale.ts";
import type { ChartTheme } from "./theme.ts";
import { positionLabel, ticks } from "./ticks.ts";
import type { AxisFormat } from "./ticks.ts";

export interface Span {
  readonly from: number;
  /** End; one that still runs ends at the newest time known. */
  readonly to: number;
  readonly label: string;
  readonly slot: number;
}

export interface Lane {
  readonly name: string;
  /** Ascending by start; spans of one lane do not overlap. */
  readonly spans: readonly Span[];
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
  return mountFigure(root, options, (current, redraw) => ({
    label: () => `${current().label}: ${current().lanes.length} lanes`,
    draw: (pen, size, theme) => {
      drawLanes(pen, size, current(), theme);
      if (selection === null) return;
      const { box } = layout(size, current());
      pen.rect({ left: selection.min, top: box.top, width: selection.max - selection.min, height: box.height }, { fill: theme.accent, alpha: 0.14 });
    },
    hover: (point, size) => {
      const found = point === null ? null : spanUnder(point, size, current());
      if (found === null) return null;
      const { lane, span } = found;
      return {
        title: span.label,
        rows: [{ label: lane.name, value: formatDuration(span.to - span.from), color: slotCss(span.slot) }],
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

export function drawLanes(pen: Pen, size: Size, options: LanesOptions, theme: ChartTheme): void {
  const { box, x, height } = layout(size, options);
  drawAxisX(pen, box, x, ticks("linear", x, Math.max(2, box.width / 90), options.format), theme);
  options.lanes.forEach((lane, row) => {
    const top = box.top + row * height;
    pen.clip({ left: 0, top, width: box.left - 6, height }, () => {
      pen.text(box.left - 8, top + height / 2, lane.name, { fill: theme.muted, align: "right", size: 10.5 });
    });
    for (const { left, width, span, num } of blocks(lane.spans, x, box)) {
      const part = { left, top: top + LANE_GAP / 2, width: width > 3 ? width - 0.75 : width, height: height - LANE_GAP };
      const fill = slotColor(span.slot, theme.isDark);
      pen.rect(part, { fill, alpha: 0.5 });
      if (width > 12) pen.rect({ ...part, width: 2 }, { fill });
      if (num === 1 && width > textWidth(span.label, 10) + 10 && height > 14) {
        pen.text(left + 6, top + height / 2, span.label, { fill: theme.ink, size: 10 });
      }
    }
  });
  verticalLine(pen, Math.round(box.left) + 0.5, box, theme.line);
}

function layout(size: Size, options: LanesOptions): { box: Box; x: Scale; height: number } {
  const { lanes } = options;
  const left = Math.min(Math.max(30, ...lanes.map(({ name }) => textWidth(name, 10.5) + 14)), 150, size.width * 0.35);
  const room = Math.max(1, size.height - AXIS_HEIGHT - 6);
  const height = Math.min(MAX_LANE, room / Math.max(1, lanes.length));
  const box = { left, top: 6, width: Math.max(1, size.width - left - 12), height: height * Math.max(1, lanes.length) };
  return { box, height, x: createScale("linear", options.range ?? extent(lanes), left, left + box.width) };
}

function extent(lanes: readonly Lane[]): Range {
  let min = Infinity;
  let max = -Infinity;
  for (const { spans } of lanes) {
    for (const { from, to } of spans) {
      if (from < min) min = from;
      if (to > max) max = to;
    }
  }
  return min < max ? { min, max } : { min: 0, max: 1 };
}

function spanUnder(point: Point, size: Size, options: LanesOptions): { lane: Lane; span: Span } | null {
  const { box, x, height } = layout(size, options);
  const lane = options.lanes[Math.floor((point.y - box.top) / height)];
  if (lane === undefined || point.x < box.left) return null;
  const block = blocks(lane.spans, x, box).find(({ left, width }) => point.x >= left - 0.5 && point.x <= left + width + 0.5);
  return block === undefined ? null : { lane, span: block.span };
}
