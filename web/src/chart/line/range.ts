/** Which part of the axes a line chart shows. */

import { rangeWithoutOutliers, sortedFinite } from "../quantile.ts";
import { padRange } from "../scale.ts";
import type { Range, ScaleKind } from "../scale.ts";
import { lowerBound } from "../series.ts";
import type { Trace } from "../series.ts";
import type { Outliers, YLimits } from "./options.ts";
import { clipRuns } from "./outliers.ts";

const Y_PADDING = 0.06;
const EMPTY_X: Range = { min: 0, max: 1 };
const EMPTY_Y: Range = { min: 0, max: 1 };
const EMPTY_LOG: Range = { min: 1, max: 10 };

/** The x values from the earliest start to the latest end of any series. */
export function extentX(traces: readonly Trace[], kind: ScaleKind): Range {
  let min = Infinity;
  let max = -Infinity;
  for (const { firstX, lastX, nonfiniteX } of traces) {
    for (const [starts, ends] of [
      [firstX, lastX],
      [nonfiniteX, nonfiniteX],
    ] as const) {
      const first = kind === "log" ? starts[firstPositive(starts)] : starts[0];
      if (first !== undefined && first < min) min = first;
      const last = ends.at(-1);
      if (last !== undefined && last > max) max = last;
    }
  }
  if (kind === "log") return max > 0 && min <= max ? widen({ min, max }, kind) : EMPTY_LOG;
  return min <= max ? widen({ min, max }, kind) : EMPTY_X;
}

export interface ExtentY {
  readonly range: Range;
  /** Points in view that this range leaves out: clipped, or not positive on a log axis. */
  readonly numHidden: number;
  /** Labels of the lines that would flatten the others, and go beyond it. */
  readonly beyond: readonly string[];
}

export interface RequestY {
  readonly kind: ScaleKind;
  readonly outliers: Outliers;
  readonly chosen: string | null;
  readonly always: readonly number[];
  readonly limits: YLimits;
}

/** The y values of the points in view, with a little air. */
export function extentY(traces: readonly Trace[], x: Range, request: RequestY): ExtentY {
  const found = dataExtentY(traces, x, request);
  const { kind, limits } = request;
  const fits = (value: number | null): value is number =>
    value !== null && Number.isFinite(value) && (kind === "linear" || value > 0);
  if (!fits(limits.min) && !fits(limits.max)) return found;
  const range = {
    min: fits(limits.min) ? limits.min : found.range.min,
    max: fits(limits.max) ? limits.max : found.range.max,
  };
  // One end by hand may lie beyond all data; the other then follows it.
  if (range.min >= range.max)
    Object.assign(
      range,
      fits(limits.max)
        ? { min: range.max - Math.abs(range.max || 1) }
        : { max: range.min + Math.abs(range.min || 1) },
    );
  return { range, numHidden: countOutside(traces, x, range, kind), beyond: [] };
}

function dataExtentY(
  traces: readonly Trace[],
  x: Range,
  { kind, outliers, chosen, always }: RequestY,
): ExtentY {
  const lines = traces.map((trace) => ({
    id: trace.id,
    label: trace.label,
    parts: inView(trace, x),
  }));
  // A log axis has room for everything.
  const clip = outliers === "auto" && kind === "linear" ? clipRuns(lines, chosen) : null;
  const beyond = clip?.beyond ?? [];
  const fits = (value: number): boolean =>
    Number.isFinite(value) && (kind === "linear" || value > 0);
  let found: Range | null = null;
  if (outliers === "clip") found = clippedRange(traces, x, fits);
  else
    found =
      clip?.range ??
      plainRange(
        lines.flatMap(({ parts }) => parts),
        kind,
      );
  for (const value of always) {
    if (!fits(value)) continue;
    found =
      found === null
        ? { min: value, max: value }
        : { min: Math.min(found.min, value), max: Math.max(found.max, value) };
  }
  if (found === null)
    return {
      range: kind === "log" ? EMPTY_LOG : EMPTY_Y,
      numHidden: countOutside(traces, x, EMPTY_LOG, kind),
      beyond,
    };
  const padded = padRange(kind, found, Y_PADDING);
  // A quantity that never goes below zero does not get an axis that does.
  const range =
    kind === "linear" && found.min >= 0 && padded.min < 0 ? { min: 0, max: padded.max } : padded;
  const isWhole = outliers !== "clip" && kind === "linear";
  return { range, numHidden: isWhole ? 0 : countOutside(traces, x, range, kind), beyond };
}

/** Bands beyond the quartiles, of runs that diverge, may be so wide that the others are flat: then they reach beyond the axis. */
const MOST_OUTER = 10;

function clippedRange(
  traces: readonly Trace[],
  x: Range,
  fits: (value: number) => boolean,
): Range | null {
  const rangeOf = (hasOuter: boolean): Range | null =>
    rangeWithoutOutliers(
      sortedFinite(
        Float64Array.from(
          traces.flatMap((trace) => inView(trace, x, hasOuter).flatMap((part) => [...part])),
        ),
      ).filter(fits),
    );
  const whole = rangeOf(true);
  const inner = traces.some(({ spread }) => spread?.outer !== undefined) ? rangeOf(false) : null;
  if (whole === null || inner === null) return whole;
  const span = inner.max - inner.min;
  if (span === 0 || whole.max - whole.min <= MOST_OUTER * span) return whole;
  return { min: Math.max(whole.min, inner.min - span), max: Math.min(whole.max, inner.max + span) };
}

/** The columns of a line in view: its values, and the edges of its ranges and bands. */
function inView(trace: Trace, { min, max }: Range, hasOuter = true): Float64Array[] {
  const start = lowerBound(trace.lastX, min);
  const stop = upperBound(trace.firstX, max);
  const columns = trace.count === null ? [trace.y] : [trace.y, trace.min, trace.max];
  if (trace.spread !== null) {
    for (const { low, high } of [
      trace.spread,
      ...(trace.spread.outer === undefined || !hasOuter ? [] : [trace.spread.outer]),
    ])
      columns.push(low, high);
  }
  return columns.map((column) => column.subarray(start, stop));
}

function plainRange(parts: readonly Float64Array[], kind: ScaleKind): Range | null {
  const floor = kind === "log" ? 0 : -Infinity;
  let min = Infinity;
  let max = -Infinity;
  for (const part of parts) {
    for (let index = 0; index < part.length; index++) {
      const value = part[index]!;
      if (value > floor && value < min) min = value;
      if (value > floor && value > max) max = value;
    }
  }
  return min <= max ? { min, max } : null;
}

/** The points that a range leaves out; of a slice or a band that reaches beyond it, one. */
function countOutside(traces: readonly Trace[], x: Range, range: Range, kind: ScaleKind): number {
  const isOutside = (value: number): boolean =>
    value > range.max || value < range.min || (kind === "log" && value <= 0);
  let num = 0;
  for (const trace of traces) {
    const columns = inView(trace, x);
    for (let index = 0; index < columns[0]!.length; index++)
      if (columns.some((column) => isOutside(column[index]!))) num++;
  }
  return num;
}

function upperBound(x: Float64Array, value: number): number {
  let stop = lowerBound(x, value);
  while (stop < x.length && x[stop] === value) stop++;
  return stop;
}

function firstPositive(x: Float64Array): number {
  let index = lowerBound(x, 0);
  while (index < x.length && x[index]! <= 0) index++;
  return index;
}

function widen(range: Range, kind: ScaleKind): Range {
  return range.max > range.min ? range : padRange(kind, range, 0.5);
}
