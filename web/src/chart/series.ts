/** What a line chart is given, and the form in which it draws it. */

import { slotDash } from "./palette.ts";

/** Every point as it was logged, x ascending; y may be nan or infinite. */
export interface RawData {
  readonly kind: "raw";
  readonly x: Float64Array;
  readonly y: Float64Array;
}

/** Slices of a longer series, each with its first, last, smallest and largest finite point and where those stand. */
export interface BucketData {
  readonly kind: "buckets";
  readonly firstX: Float64Array;
  readonly first: Float64Array;
  readonly lastX: Float64Array;
  readonly last: Float64Array;
  readonly minX: Float64Array;
  readonly min: Float64Array;
  readonly maxX: Float64Array;
  readonly max: Float64Array;
  /** Points in each slice. */
  readonly count: Float64Array;
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
  /** Palette slot; see palette.ts. */
  readonly slot: number;
  readonly data: SeriesData;
  readonly spread?: Spread;
  /** Smoothed values, one per sample, where they are known better than from the data; those of the newest samples may follow later. */
  readonly smoothed?: Float64Array | undefined;
  /** What is said beside the value of a sample. */
  readonly noteOf?: ((index: number) => string) | undefined;
}

/** A series ready to be drawn. */
export interface Trace {
  readonly id: string;
  readonly label: string;
  readonly slot: number;
  readonly dash: readonly number[];
  /** All known points in order; a nan breaks the line. */
  readonly x: Float64Array;
  readonly y: Float64Array;
  /** One point per slice, its last: what is smoothed and what the crosshair reads. */
  readonly sampleX: Float64Array;
  readonly sampleY: Float64Array;
  readonly nonfiniteX: Float64Array;
  readonly nonfinite: Float64Array;
  readonly data: SeriesData;
  readonly spread: Spread | null;
  readonly smoothed: Float64Array | null;
  readonly noteOf: ((index: number) => string) | null;
}

export function prepare(series: Series): Trace {
  const { id, label, slot, data } = series;
  const common = { id, label, slot, dash: slotDash(slot), data, spread: series.spread ?? null, smoothed: series.smoothed ?? null, noteOf: series.noteOf ?? null };
  if (data.kind === "raw") return { ...common, ...rawPoints(data) };
  return {
    ...common,
    ...expand(data),
    sampleX: data.lastX,
    sampleY: data.last,
    nonfiniteX: data.nonfiniteX,
    nonfinite: data.nonfinite,
  };
}

type Points = Pick<Trace, "x" | "y" | "sampleX" | "sampleY" | "nonfiniteX" | "nonfinite">;

function rawPoints({ x, y }: RawData): Points {
  let num = 0;
  for (let index = 0; index < y.length; index++) if (!Number.isFinite(y[index]!)) num++;
  if (num === 0) return { x, y, sampleX: x, sampleY: y, nonfiniteX: new Float64Array(0), nonfinite: new Float64Array(0) };
  const nonfiniteX = new Float64Array(num);
  const nonfinite = new Float64Array(num);
  const known = y.slice();
  for (let index = 0, at = 0; index < y.length; index++) {
    if (Number.isFinite(y[index]!)) continue;
    nonfiniteX[at] = x[index]!;
    nonfinite[at++] = y[index]!;
    known[index] = NaN;
  }
  return { x, y: known, sampleX: x, sampleY: known, nonfiniteX, nonfinite };
}

/** Lay the slices' points out in the order in which they stand on the axis, each once. */
export function expand(data: BucketData): { x: Float64Array; y: Float64Array } {
  const x = new Float64Array(data.last.length * 4);
  const y = new Float64Array(data.last.length * 4);
  let num = 0;
  const put = (atX: number, atY: number): void => {
    if (num > 0 && x[num - 1] === atX && Object.is(y[num - 1], atY)) return;
    x[num] = atX;
    y[num++] = atY;
  };
  for (let index = 0; index < data.last.length; index++) {
    const minFirst = data.minX[index]! <= data.maxX[index]!;
    put(data.firstX[index]!, data.first[index]!);
    if (minFirst) put(data.minX[index]!, data.min[index]!);
    put(data.maxX[index]!, data.max[index]!);
    if (!minFirst) put(data.minX[index]!, data.min[index]!);
    put(data.lastX[index]!, data.last[index]!);
  }
  return { x: x.subarray(0, num), y: y.subarray(0, num) };
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
