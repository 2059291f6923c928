/** What a line chart is given, and the form in which it draws it. */

import { slotDash } from "./palette.ts";

/** Every point as it was logged, x ascending; y may be nan or infinite. */
export interface RawData {
  readonly kind: "raw";
  readonly x: Float64Array;
  readonly y: Float64Array;
}

/** Slices of a longer series: where the finite points of each begin and end, their mean and range, and where the extremes are. */
export interface BucketData {
  readonly kind: "buckets";
  readonly firstX: Float64Array;
  readonly lastX: Float64Array;
  readonly minX: Float64Array;
  readonly maxX: Float64Array;
  readonly mean: Float64Array;
  readonly min: Float64Array;
  readonly max: Float64Array;
  /** Finite points in each slice. */
  readonly count: Float64Array;
  /** The last finite value as it was logged; the columns have fewer digits. */
  readonly last: number | null;
  /** Points that are nan or infinite, which the slices leave out. */
  readonly nonfiniteX: Float64Array;
  readonly nonfinite: Float64Array;
}

export type SeriesData = RawData | BucketData;

/** A band around a line, one value per sample of the series. */
export interface Spread {
  readonly low: Float64Array;
  readonly high: Float64Array;
  /** A wider and fainter band around it. */
  readonly outer?: { readonly low: Float64Array; readonly high: Float64Array };
}

export interface Series {
  readonly id: string;
  readonly label: string;
  /** What several lines belong to, such as a run; without it the line stands for itself. */
  readonly owner?: string;
  /** What lines of several owners have in common, such as a metric. */
  readonly subject?: string;
  /** Palette slot; see palette.ts. */
  readonly slot: number;
  /** Without it the dash of the slot. */
  readonly dash?: readonly number[] | undefined;
  readonly data: SeriesData;
  readonly spread?: Spread;
  /** Smoothed values, one per sample; those of the newest samples may follow later. */
  readonly smoothed?: Float64Array | undefined;
  /** What is said beside the value of a sample. */
  readonly noteOf?: ((index: number) => string) | undefined;
}

/** What a line is drawn through, x ascending: points, or slices of several points with the mean and the range of each. */
export interface Samples {
  /** Where a point is, or the middle of a slice. */
  readonly x: Float64Array;
  /** The value of a point, or the mean of a slice; a nan breaks the line. */
  readonly y: Float64Array;
  readonly firstX: Float64Array;
  readonly lastX: Float64Array;
  readonly minX: Float64Array;
  readonly maxX: Float64Array;
  readonly min: Float64Array;
  readonly max: Float64Array;
  /** Finite points in each; null where each is one point. */
  readonly count: Float64Array | null;
}

/** A series ready to be drawn. */
export interface Trace extends Samples {
  readonly id: string;
  readonly owner: string;
  readonly subject: string;
  readonly label: string;
  readonly slot: number;
  readonly dash: readonly number[];
  readonly nonfiniteX: Float64Array;
  readonly nonfinite: Float64Array;
  readonly data: SeriesData;
  readonly spread: Spread | null;
  /** One value per sample, at its `lastX`. */
  readonly smoothed: Float64Array | null;
  readonly noteOf: ((index: number) => string) | null;
}

export function prepare(series: Series): Trace {
  const { id, label, slot, data } = series;
  return {
    id,
    owner: series.owner ?? id,
    subject: series.subject ?? id,
    label,
    slot,
    dash: series.dash ?? slotDash(slot),
    data,
    spread: series.spread ?? null,
    smoothed: series.smoothed ?? null,
    noteOf: series.noteOf ?? null,
    ...(data.kind === "raw"
      ? nonfinitePoints(data)
      : { nonfiniteX: data.nonfiniteX, nonfinite: data.nonfinite }),
    ...samplesOf(data),
  };
}

export function samplesOf(data: SeriesData): Samples {
  if (data.kind === "raw")
    return pointSamples(
      data.x,
      data.y.every(Number.isFinite)
        ? data.y
        : data.y.map((value) => (Number.isFinite(value) ? value : NaN)),
    );
  const { firstX, lastX, minX, maxX, mean, min, max, count } = data;
  return {
    x: firstX.map((first, index) => (first + lastX[index]!) / 2),
    y: mean,
    firstX,
    lastX,
    minX,
    maxX,
    min,
    max,
    count,
  };
}

/** Samples that are one point each. */
export function pointSamples(x: Float64Array, y: Float64Array): Samples {
  return { x, y, firstX: x, lastX: x, minX: x, maxX: x, min: y, max: y, count: null };
}

function nonfinitePoints({ x, y }: RawData): Pick<Trace, "nonfiniteX" | "nonfinite"> {
  const isStrange = (_: number, index: number): boolean => !Number.isFinite(y[index]!);
  return { nonfiniteX: x.filter(isStrange), nonfinite: y.filter(isStrange) };
}

/** Several samples as one. */
export interface Merged {
  readonly mean: number;
  readonly min: number;
  readonly max: number;
  /** Where the extremes are. */
  readonly minX: number;
  readonly maxX: number;
  /** How many points they have. */
  readonly points: number;
}

/** Merge some samples; the mean is nan where none of them is finite. */
export function merged(samples: Samples, start: number, stop: number): Merged {
  const { y, min, max, minX, maxX, count } = samples;
  let [sum, points, lowest, highest] = [0, 0, -1, -1];
  for (let index = start; index < stop; index++) {
    if (Number.isNaN(y[index]!)) continue;
    const weight = count === null ? 1 : count[index]!;
    sum += y[index]! * weight;
    points += weight;
    if (lowest < 0 || min[index]! < min[lowest]!) lowest = index;
    if (highest < 0 || max[index]! > max[highest]!) highest = index;
  }
  return {
    mean: stop - start === 1 ? y[start]! : sum / points,
    min: min[lowest] ?? Infinity,
    max: max[highest] ?? -Infinity,
    minX: minX[lowest] ?? NaN,
    maxX: maxX[highest] ?? NaN,
    points,
  };
}

/** Index of the first x that is not below `value`. */
export function lowerBound(x: ArrayLike<number>, value: number): number {
  let low = 0;
  let high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Index of the x nearest to `value`, or -1 when there is none. */
export function nearestIndex(x: ArrayLike<number>, value: number): number {
  if (x.length === 0) return -1;
  const above = lowerBound(x, value);
  if (above === 0) return 0;
  if (above === x.length) return x.length - 1;
  return value - x[above - 1]! <= x[above]! - value ? above - 1 : above;
}

/** Value of a line at `at`, between its points; nan before its start, after its end and in gaps. */
export function interpolate(x: Float64Array, y: Float64Array, at: number): number {
  const above = lowerBound(x, at);
  if (above === x.length) return NaN;
  if (x[above] === at) return y[above]!;
  if (above === 0) return NaN;
  const share = (at - x[above - 1]!) / (x[above]! - x[above - 1]!);
  return y[above - 1]! + (y[above]! - y[above - 1]!) * share;
}
