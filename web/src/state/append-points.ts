/** Appends points to a series without copying the points that are there. */

import type { BucketData, SeriesData } from "../chart/index.ts";

export interface NewPoints {
  /** Ascending. */
  readonly x: readonly number[];
  /** May be nan or infinite. */
  readonly y: readonly number[];
}

/** How many values of a buffer are taken by the longest series that lies in it. */
const taken = new WeakMap<ArrayBufferLike, number>();

/**
 * A series with points added at its end; the given one stays as it was. A point at the last x replaces the last one. Null when a point
 * would have to go elsewhere, or replace one that slices no longer tell apart: then the series has to be asked for.
 */
export function appendPoints(data: SeriesData, points: NewPoints): SeriesData | null {
  if (points.x.length === 0) return data;
  return data.kind === "raw" ? growRaw(data, points) : growSlices(data, points);
}

function growRaw(data: SeriesData & { kind: "raw" }, { x, y }: NewPoints): SeriesData | null {
  const last = data.x.at(-1) ?? -Infinity;
  if (x[0]! < last) return null;
  if (x[0]! > last) return { kind: "raw", x: extended(data.x, x), y: extended(data.y, y) };
  const kept = data.x.length - 1;
  return {
    kind: "raw",
    x: extended(data.x.slice(0, kept), x),
    y: extended(data.y.slice(0, kept), y),
  };
}

function growSlices(data: BucketData, points: NewPoints): SeriesData | null {
  if (points.x[0]! <= endOf(data)) return null;
  const [x, y, strangeX, strange]: [number[], number[], number[], number[]] = [[], [], [], []];
  for (const [index, value] of points.y.entries()) {
    const isKnown = Number.isFinite(value);
    (isKnown ? x : strangeX).push(points.x[index]!);
    (isKnown ? y : strange).push(value);
  }
  return {
    kind: "buckets",
    firstX: extended(data.firstX, x),
    lastX: extended(data.lastX, x),
    minX: extended(data.minX, x),
    maxX: extended(data.maxX, x),
    mean: extended(data.mean, y),
    min: extended(data.min, y),
    max: extended(data.max, y),
    count: extended(
      data.count,
      x.map(() => 1),
    ),
    last: y.at(-1) ?? data.last,
    nonfiniteX: extended(data.nonfiniteX, strangeX),
    nonfinite: extended(data.nonfinite, strange),
  };
}

/** The values and more after them: in the same buffer where nothing follows yet, else in one twice as large. */
export function extended(values: Float64Array, more: readonly number[]): Float64Array {
  if (more.length === 0) return values;
  const length = values.length + more.length;
  const isOurs = values.byteOffset === 0 && taken.get(values.buffer) === values.length;
  let all: Float64Array;
  if (isOurs && length * 8 <= values.buffer.byteLength) {
    all = new Float64Array(values.buffer, 0, length);
  } else {
    all = new Float64Array(new ArrayBuffer(Math.max(64, length * 2) * 8), 0, length);
    all.set(values);
  }
  all.set(more, values.length);
  taken.set(all.buffer, length);
  return all;
}

export function lengthOf(data: SeriesData): number {
  return data.kind === "raw" ? data.x.length : data.lastX.length;
}

/** Where a series ends; before everything when it is empty. */
export function endOf(data: SeriesData): number {
  const ends = data.kind === "raw" ? [data.x] : [data.lastX, data.nonfiniteX];
  return Math.max(...ends.map((x) => x.at(-1) ?? -Infinity));
}

/** The last value as it was logged. */
export function lastOf(data: SeriesData): number | null {
  if (data.kind === "raw") return data.y.at(-1) ?? null;
  const strange = data.nonfiniteX.at(-1) ?? -Infinity;
  return strange > (data.lastX.at(-1) ?? -Infinity) ? data.nonfinite.at(-1)! : data.last;
}

/** The smallest and the largest finite value; null when there is none. */
export function extremesOf(
  data: SeriesData,
): { readonly min: number; readonly max: number } | null {
  const [lows, highs] = data.kind === "raw" ? [data.y, data.y] : [data.min, data.max];
  let [min, max] = [Infinity, -Infinity];
  for (const value of lows) if (value < min && value > -Infinity) min = value;
  for (const value of highs) if (value > max && value < Infinity) max = value;
  return min <= max ? { min, max } : null;
}
