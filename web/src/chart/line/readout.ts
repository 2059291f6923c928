/** What a line chart says about one x value: every series' value there, the best first, with the nearest to the pointer marked. */

import {
  formatBytes,
  formatDelta,
  formatDuration,
  formatNumber,
  formatPercent,
  formatWhole,
} from "../format.ts";
import { dashSample, slotCss } from "../palette.ts";
import { columnAround } from "../paths.ts";
import { interpolate, lowerBound, merged, nearestIndex } from "../series.ts";
import type { Merged, Trace } from "../series.ts";
import { positionLabel } from "../ticks.ts";
import type { AxisFormat } from "../ticks.ts";
import type { TooltipContent, TooltipRow } from "../tooltip.ts";
import { isDimmed } from "./options.ts";
import type { Mark, Stretch } from "./options.ts";
import { stretchAt } from "./marks.ts";
import type { LineDrawing } from "./drawing.ts";

const MAX_ROWS = 14;
/** With more lines than rows, so many of the best are shown in any case; the other rows are nearest to the pointer. */
const MAX_BEST = 4;
const REACH_PX = 12;
const MARK_REACH_PX = 5;
const MAX_MARKS = 6;

export interface Reading {
  readonly trace: Trace;
  readonly x: number;
  /** The value of a point, or the mean of a column of several; with smoothing, the smoothed value there. */
  readonly value: number;
  readonly px: number;
  readonly py: number;
  /** Null where the reading is one point. */
  readonly column: Column | null;
}

/** Several points that are drawn in one column, from the first x to the last. */
export interface Column extends Merged {
  readonly from: number;
  readonly to: number;
  /** Index of the first point among them that is not finite; -1 where all are. */
  readonly strange: number;
}

export interface Readout {
  /** The logged x nearest to the pointer. */
  readonly x: number;
  /** From best to worst, without a goal from largest to smallest; those that are not finite last. */
  readonly readings: readonly Reading[];
  readonly nearest: Reading | null;
  readonly pointerY: number | null;
  readonly marks: readonly Mark[];
  readonly stretch: Stretch | undefined;
}

/**
 * Read all series at an x value. `pointerY` in pixels decides which is nearest; a pointer reads all points in its pixel column, because it cannot
 * reach each of them. Null means no pointer: then every point or slice is read by itself.
 */
export function readAt(drawing: LineDrawing, at: number, pointerY: number | null): Readout | null {
  const traces = drawing.traces.filter((trace) => !isDimmed(trace, drawing.emphasis));
  const snapped = snap(traces, at);
  if (snapped === null) return null;
  const pixel = drawing.x.toPixel(snapped);
  const readings: Reading[] = [];
  for (const trace of traces) {
    const reading = readTrace(drawing, trace, snapped, pixel, pointerY !== null);
    if (reading !== null) readings.push(reading);
  }
  const sign = drawing.options.goal === "min" ? 1 : -1;
  readings.sort((one, other) => byValue(sign * one.value, sign * other.value));
  const marks = drawing.options.marks.filter(
    (mark) => Math.abs(drawing.x.toPixel(mark.x) - drawing.x.toPixel(at)) <= MARK_REACH_PX,
  );
  return {
    x: snapped,
    readings,
    pointerY,
    nearest: pointerY === null ? null : nearestReading(readings, pointerY),
    marks,
    stretch: stretchAt(drawing.options.stretches, snapped),
  };
}

export function readoutContent(readout: Readout, drawing: LineDrawing): TooltipContent {
  const { options } = drawing;
  const baseline = readout.readings.find((reading) => reading.trace.id === options.baseline);
  const shown = shownReadings(readout);
  const at = shown.map((reading) => readout.readings.indexOf(reading));
  const left = (from: number, to: number): TooltipRow[] =>
    to - from > 1 ? [{ label: `… ${formatWhole(to - from - 1)} more`, value: "" }] : [];
  const rows: TooltipRow[] = shown.flatMap((reading, index) => [
    ...left(at[index - 1] ?? -1, at[index]!),
    {
      label: reading.trace.label,
      value: formatValue(reading.value, options.yFormat),
      color: dashSample(slotCss(reading.trace.slot), reading.trace.dash),
      isNearest: reading === readout.nearest,
      note: note(reading, readout, baseline, drawing),
    },
  ]);
  rows.push(
    ...left(at.at(-1) ?? -1, readout.readings.length),
    ...spans(readout).map((label) => ({ label, value: "" })),
  );
  const foot = footnote(readout, drawing);
  const title = readoutTitle(readout, drawing);
  return foot === "" ? { title, rows } : { title, rows, foot };
}

/** Where a readout was taken: one x, or from which to which where a column has several points. */
export function readoutTitle({ x, readings }: Readout, { options }: LineDrawing): string {
  const columns = readings.flatMap(({ column }) =>
    column !== null && column.from <= x && x <= column.to ? [column] : [],
  );
  if (columns.length === 0) return positionLabel(x, options.xFormat);
  const [from, to] = [
    Math.min(...columns.map((column) => column.from)),
    Math.max(...columns.map((column) => column.to)),
  ].map((at) => positionLabel(at, options.xFormat)) as [string, string];
  return from === to ? from : `${from} – ${withoutUnit(to)}`;
}

/** A reading for a screen reader. */
export function readingText({ trace, value, column }: Reading, drawing: LineDrawing): string {
  const text = `${trace.label} ${formatValue(value, drawing.options.yFormat)}`;
  if (column === null) return trace.smoothed === null ? text : `${text} smoothed`;
  const extremes = extremesText(column, drawing);
  return `${text}, ${trace.smoothed === null ? "the mean" : "smoothed"} of ${formatWhole(column.points)} points, ${extremes}`;
}

/** What happened where a readout was taken, in words. */
export function spans({ marks, stretch }: Readout): readonly string[] {
  return [
    ...marks.slice(0, MAX_MARKS).map(({ label }) => label),
    ...(stretch === undefined ? [] : [stretch.label]),
  ];
}

/** Write a value in the form its axis has. */
export function formatValue(value: number, format: AxisFormat): string {
  if (format === "bytes") return formatBytes(value);
  if (format === "percent") return formatPercent(value);
  if (format === "duration" || format === "relative") return formatDuration(value);
  return formatNumber(value);
}

function snap(traces: readonly Trace[], at: number): number | null {
  let best: number | null = null;
  for (const trace of traces) {
    for (const x of [trace.x, trace.nonfiniteX]) {
      const index = nearestIndex(x, at);
      if (index >= 0 && (best === null || Math.abs(x[index]! - at) < Math.abs(best - at)))
        best = x[index]!;
    }
  }
  return best;
}

function readTrace(
  drawing: LineDrawing,
  trace: Trace,
  at: number,
  pixel: number,
  isColumn: boolean,
): Reading | null {
  const index = nearestIndex(trace.x, at);
  if (index < 0) return null;
  const isOutside = at < trace.firstX[0]! || at > trace.lastX.at(-1)!;
  if (isOutside && Math.abs(drawing.x.toPixel(trace.x[index]!) - pixel) > REACH_PX) return null;
  const strange = nearestIndex(trace.nonfiniteX, at);
  if (strange >= 0 && Math.abs(trace.nonfiniteX[strange]! - at) <= Math.abs(trace.x[index]! - at)) {
    return {
      trace,
      x: trace.nonfiniteX[strange]!,
      value: trace.nonfinite[strange]!,
      px: drawing.x.toPixel(trace.nonfiniteX[strange]!),
      py: NaN,
      column: null,
    };
  }
  const [start, stop] = isColumn ? columnAround(trace.x, index, drawing.x) : [index, index + 1];
  const all = merged(trace, start, stop);
  const [from, to] = [trace.firstX[start]!, trace.lastX[stop - 1]!];
  const smoothed = trace.smoothed?.[stop - 1];
  const x = smoothed === undefined ? (from + to) / 2 : to;
  const value = smoothed ?? all.mean;
  return {
    trace,
    x,
    value,
    px: drawing.x.toPixel(x),
    py: drawing.y.toPixel(value),
    column: all.points > 1 ? { ...all, from, to, strange: strangeWithin(trace, from, to) } : null,
  };
}

function strangeWithin({ nonfiniteX }: Trace, from: number, to: number): number {
  const index = lowerBound(nonfiniteX, from);
  return index < nonfiniteX.length && nonfiniteX[index]! <= to ? index : -1;
}

function nearestReading(readings: readonly Reading[], pointerY: number): Reading | null {
  let nearest: Reading | null = null;
  for (const reading of readings) {
    if (!Number.isFinite(reading.py)) continue;
    if (nearest === null || Math.abs(reading.py - pointerY) < Math.abs(nearest.py - pointerY))
      nearest = reading;
  }
  return nearest;
}

function note(
  reading: Reading,
  readout: Readout,
  baseline: Reading | undefined,
  drawing: LineDrawing,
): string {
  const range = reading.column === null ? "" : rangeText(reading.trace, reading.column, drawing);
  return [range, placeNote(reading, readout, baseline, drawing)]
    .filter((text) => text !== "")
    .join(" · ");
}

/** The range of a column, and where its first point that is not finite is. */
function rangeText(
  { nonfiniteX, nonfinite }: Trace,
  { min, max, strange }: Column,
  { options }: LineDrawing,
): string {
  const range = `${formatValue(min, options.yFormat)} – ${formatValue(max, options.yFormat)}`;
  return strange < 0
    ? range
    : `${range}, ${formatNumber(nonfinite[strange]!)} at ${withoutUnit(positionLabel(nonfiniteX[strange]!, options.xFormat))}`;
}

/** Where the extremes of a column are; a line breaks between the two only. */
function extremesText({ min, max, minX, maxX }: Column, { options }: LineDrawing): string {
  const text = (name: string, value: number, x: number): string =>
    `${name} ${formatValue(value, options.yFormat)} at ${positionLabel(x, options.xFormat)}`.replaceAll(
      " ",
      "\u00a0",
    );
  return `${text("max", max, maxX)} · ${text("min", min, minX)}`;
}

function placeNote(
  reading: Reading,
  readout: Readout,
  baseline: Reading | undefined,
  drawing: LineDrawing,
): string {
  const { noteOf, x } = reading.trace;
  if (noteOf !== null) return noteOf(nearestIndex(x, reading.x));
  const { from, to } = reading.column ?? { from: reading.x, to: reading.x };
  const nearest = Math.max(from, Math.min(to, readout.x));
  if (Math.abs(drawing.x.toPixel(nearest) - drawing.x.toPixel(readout.x)) > 3)
    return `@ ${withoutUnit(positionLabel(reading.x, drawing.options.xFormat))}`;
  if (baseline === undefined) return "";
  if (reading === baseline) return "baseline";
  const { trace } = baseline;
  const reference =
    reading.column === null ? interpolate(trace.lastX, trace.smoothed ?? trace.y, reading.x) : NaN;
  return formatDelta(reading.value, Number.isNaN(reference) ? baseline.value : reference);
}

function withoutUnit(label: string): string {
  return label.replace(/^\D+ /, "");
}

/** What the values are where they are not what was logged at that x, and where the extremes of the nearest line are. */
function footnote({ readings, nearest }: Readout, drawing: LineDrawing): string {
  const sizes = readings.flatMap(({ column }) => (column === null ? [] : [column.points]));
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  const points = `${least < most ? "up to " : ""}${formatWhole(most)} points`;
  const isSmoothed = readings.some(({ trace }) => trace.smoothed !== null);
  const column = (readings.length === 1 ? readings[0]! : nearest)?.column ?? null;
  return [
    ...(isSmoothed ? ["smoothed"] : []),
    ...(sizes.length === 0
      ? []
      : [isSmoothed ? `range of ${points}` : `mean and range of ${points}`]),
    ...(column === null || column.min === column.max ? [] : [extremesText(column, drawing)]),
  ].join(" · ");
}

/** All readings where they fit; else the best and those nearest to the pointer, in their order. */
function shownReadings({ readings, pointerY }: Readout): readonly Reading[] {
  if (readings.length <= MAX_ROWS) return readings;
  if (pointerY === null) return readings.slice(0, MAX_ROWS);
  const distance = ({ py }: Reading): number =>
    Number.isFinite(py) ? Math.abs(py - pointerY) : Infinity;
  const near = readings
    .slice(MAX_BEST)
    .sort((one, other) => distance(one) - distance(other))
    .slice(0, MAX_ROWS - MAX_BEST);
  return readings.filter((reading, index) => index < MAX_BEST || near.includes(reading));
}

function byValue(one: number, other: number): number {
  return Number(Number.isNaN(one)) - Number(Number.isNaN(other)) || one - other;
}
