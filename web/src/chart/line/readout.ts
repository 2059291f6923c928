/** What a line chart says about one x value: every series' value there, sorted, with the nearest to the pointer marked. */

import { formatBytes, formatDelta, formatDuration, formatNumber, formatPercent, formatWhole } from "../format.ts";
import { slotCss } from "../palette.ts";
import { interpolate, nearestIndex } from "../series.ts";
import type { Trace } from "../series.ts";
import { positionLabel } from "../ticks.ts";
import type { AxisFormat } from "../ticks.ts";
import type { TooltipContent, TooltipRow } from "../tooltip.ts";
import { isDimmed } from "./options.ts";
import type { Mark, Stretch } from "./options.ts";
import { stretchAt } from "./marks.ts";
import type { LineDrawing } from "./drawing.ts";

const MAX_ROWS = 14;
const REACH_PX = 12;
const MARK_REACH_PX = 5;
const MAX_MARKS = 6;

export interface Reading {
  readonly trace: Trace;
  readonly x: number;
  readonly value: number;
  readonly px: number;
  readonly py: number;
}

export interface Readout {
  /** The logged x nearest to the pointer. */
  readonly x: number;
  /** From largest to smallest; those that are not finite last. */
  readonly readings: readonly Reading[];
  readonly nearest: Reading | null;
  readonly marks: readonly Mark[];
  readonly stretch: Stretch | undefined;
}

/** Read all series at an x value; `pointerY` in pixels decides which is nearest, null means no pointer. */
export function readAt(drawing: LineDrawing, at: number, pointerY: number | null): Readout | null {
  const traces = drawing.traces.filter((trace) => !isDimmed(trace.id, drawing.emphasis));
  const snapped = snap(traces, at);
  if (snapped === null) return null;
  const pixel = drawing.x.toPixel(snapped);
  const readings: Reading[] = [];
  for (const trace of traces) {
    const reading = readTrace(drawing, trace, snapped, pixel);
    if (reading !== null) readings.push(reading);
  }
  readings.sort((one, other) => descending(one.value, other.value));
  const marks = drawing.options.marks.filter((mark) => Math.abs(drawing.x.toPixel(mark.x) - drawing.x.toPixel(at)) <= MARK_REACH_PX);
  return { x: snapped, readings, nearest: pointerY === null ? null : nearestReading(readings, pointerY), marks, stretch: stretchAt(drawing.options.stretches, snapped) };
}

export function readoutContent(readout: Readout, drawing: LineDrawing): TooltipContent {
  const { options } = drawing;
  const baseline = readout.readings.find((reading) => reading.trace.id === options.baseline);
  const shown = windowAround(readout.readings, readout.nearest);
  const rows: TooltipRow[] = shown.map((reading) => ({
    label: reading.trace.label,
    value: formatValue(reading.value, options.yFormat),
    color: slotCss(reading.trace.slot),
    isNearest: reading === readout.nearest,
    note: note(reading, readout, baseline, drawing),
  }));
  for (const label of spans(readout)) rows.push({ label, value: "" });
  const foot = footnote(readout, shown.length);
  const title = positionLabel(readout.x, options.xFormat);
  return foot === "" ? { title, rows } : { title, rows, foot };
}

/** What happened where a readout was taken, in words. */
export function spans({ marks, stretch }: Readout): readonly string[] {
  return [...marks.slice(0, MAX_MARKS).map(({ label }) => label), ...(stretch === undefined ? [] : [stretch.label])];
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
  for (const { sampleX, nonfiniteX } of traces) {
    for (const x of [sampleX, nonfiniteX]) {
      const index = nearestIndex(x, at);
      if (index >= 0 && (best === null || Math.abs(x[index]! - at) < Math.abs(best - at))) best = x[index]!;
    }
  }
  return best;
}

function readTrace(drawing: LineDrawing, trace: Trace, at: number, pixel: number): Reading | null {
  const index = nearestIndex(trace.sampleX, at);
  if (index < 0) return null;
  const x = trace.sampleX[index]!;
  const isOutside = at < trace.sampleX[0]! || at > trace.sampleX.at(-1)!;
  if (isOutside && Math.abs(drawing.x.toPixel(x) - pixel) > REACH_PX) return null;
  const values = drawing.smoothed.get(trace.id) ?? trace.sampleY;
  const strange = nearestIndex(trace.nonfiniteX, at);
  if (strange >= 0 && Math.abs(trace.nonfiniteX[strange]! - at) <= Math.abs(x - at)) {
    const value = trace.nonfinite[strange]!;
    return { trace, x: trace.nonfiniteX[strange]!, value, px: drawing.x.toPixel(trace.nonfiniteX[strange]!), py: NaN };
  }
  const value = values[index] ?? trace.sampleY[index]!;
  return { trace, x, value, px: drawing.x.toPixel(x), py: drawing.y.toPixel(value) };
}

function nearestReading(readings: readonly Reading[], pointerY: number): Reading | null {
  let nearest: Reading | null = null;
  for (const reading of readings) {
    if (!Number.isFinite(reading.py)) continue;
    if (nearest === null || Math.abs(reading.py - pointerY) < Math.abs(nearest.py - pointerY)) nearest = reading;
  }
  return nearest;
}

function note(reading: Reading, readout: Readout, baseline: Reading | undefined, drawing: LineDrawing): string {
  const { noteOf, sampleX } = reading.trace;
  if (noteOf !== null) return noteOf(nearestIndex(sampleX, reading.x));
  const isElsewhere = Math.abs(drawing.x.toPixel(reading.x) - drawing.x.toPixel(readout.x)) > 3;
  if (isElsewhere) return `@ ${positionLabel(reading.x, drawing.options.xFormat).replace(/^\D+ /, "")}`;
  if (baseline === undefined) return "";
  if (reading === baseline) return "baseline";
  const values = drawing.smoothed.get(baseline.trace.id) ?? baseline.trace.sampleY;
  const reference = interpolate(baseline.trace.sampleX, values, reading.x);
  return formatDelta(reading.value, Number.isNaN(reference) ? baseline.value : reference);
}

function footnote(readout: Readout, numShown: number): string {
  const parts: string[] = [];
  const hidden = readout.readings.length - numShown;
  if (hidden > 0) parts.push(`${hidden} more`);
  let largest = 1;
  for (const { trace, x } of readout.readings) {
    if (trace.data.kind === "buckets") largest = Math.max(largest, trace.data.count[nearestIndex(trace.sampleX, x)] ?? 1);
  }
  if (largest > 1) parts.push(`last of ${formatWhole(largest)} points`);
  return parts.join(" · ");
}

function windowAround(readings: readonly Reading[], nearest: Reading | null): readonly Reading[] {
  if (readings.length <= MAX_ROWS) return readings;
  const centre = nearest === null ? 0 : readings.indexOf(nearest);
  const start = Math.max(0, Math.min(readings.length - MAX_ROWS, centre - MAX_ROWS / 2));
  return readings.slice(start, start + MAX_ROWS);
}

function descending(one: number, other: number): number {
  if (Number.isNaN(one)) return Number.isNaN(other) ? 0 : 1;
  if (Number.isNaN(other)) return -1;
  return other - one;
}
