/**
 * Smoothing where only slices of a series are at hand. A slice counts as its number of points, each of its mean. That is close to the truth where the
 * smoothing reaches over more points than a slice has; for weaker averages a saved page keeps some moving averages of every slice, and others follow
 * from these.
 */

import type { BucketData } from "./series.ts";
import type { Smoothing } from "./smooth.ts";

/** Further columns of slices by name: moving averages such as `ema:0.9` at the last point of each. */
export type SliceColumns = Readonly<Record<string, Float64Array>>;

/** What a smoothing of slices is off at most, as a share of the range that a chart with noisy lines shows. */
export const SLICE_ERROR = 0.01;

/** The smoothed value at the last point of each slice. */
export function smoothSlices(data: BucketData, columns: SliceColumns, smoothing: Smoothing): Float64Array {
  const kept = Object.entries(columns).filter(([name]) => name.startsWith("ema:"));
  if (smoothing.kind === "none") return data.last;
  if (smoothing.kind === "ema" && kept.length > 0) return fromAverages(data.last, kept, smoothing.amount);
  if (smoothing.kind === "gaussian") return underKernel(data, smoothing.amount * 4, (distance) => normal(distance / smoothing.amount));
  if (smoothing.kind === "mean") {
    const reach = Math.trunc(smoothing.amount / 2) + 0.5;
    return underKernel(data, reach, (distance) => Math.max(-reach, Math.min(reach, distance)));
  }
  return decayed(data, smoothing.amount, smoothing.kind === "time-ema" ? pointDistance(data) : 0);
}

/** The same smoothing, raised where slices are too coarse to tell it within `SLICE_ERROR`. */
export function withinSlices(data: BucketData, columns: SliceColumns, smoothing: Smoothing): Smoothing {
  const coarse = data.count.filter((count) => count > 1).sort();
  if (smoothing.kind === "none" || coarse.length === 0) return smoothing;
  const points = coarse[coarse.length >> 1]!;
  if (smoothing.kind === "ema" && Object.keys(columns).some((name) => name.startsWith("ema:"))) return smoothing;
  // The noise of what a kernel differs from its steps over slices stays below a fiftieth of the noise of the points.
  if (smoothing.kind === "mean") return { kind: "mean", amount: Math.max(smoothing.amount, Math.ceil(40 * Math.sqrt(points))) };
  if (smoothing.kind === "gaussian") return { kind: "gaussian", amount: Math.max(smoothing.amount, (9 * points) ** (2 / 3)) };
  return { kind: smoothing.kind, amount: Math.max(smoothing.amount, 1 - 1 / (18 * points) ** (2 / 3)) };
}

/**
 * The average of another weight as a mixture of known ones: the one whose kernel is nearest to it. The last point itself is the average of weight 0,
 * and the shares add up to 1, so that a constant stays what it is.
 */
function fromAverages(last: Float64Array, kept: readonly (readonly [string, Float64Array])[], weight: number): Float64Array {
  const weights = kept.map(([name]) => Number(name.slice("ema:".length)));
  const shares = mixture(weights, weight);
  const smoothed = new Float64Array(last.length);
  for (let index = 0; index < last.length; index++) {
    let value = last[index]!;
    for (const [at, [, column]] of kept.entries()) value += shares[at]! * (column[index]! - last[index]!);
    smoothed[index] = value;
  }
  return smoothed;
}

/** The shares of known averages, beside the last point, that come closest to another: least squares over their kernels. */
export function mixture(weights: readonly number[], weight: number): readonly number[] {
  const product = (one: number, other: number): number => ((1 - one) * (1 - other)) / (1 - one * other);
  // Of kernels less that of the last point, whose products with others are their first values.
  const reduced = (one: number, other: number): number => product(one, other) - product(one, 0) - product(0, other) + 1;
  return solved(weights.map((one) => weights.map((other) => reduced(one, other))), weights.map((one) => reduced(one, weight)));
}

/** Gaussian elimination with the largest pivot of each column. */
function solved(matrix: readonly (readonly number[])[], right: readonly number[]): readonly number[] {
  const rows = matrix.map((row, index) => [...row, right[index]!]);
  const size = rows.length;
  for (let column = 0; column < size; column++) {
    let pivot = column;
    for (let row = column + 1; row < size; row++) if (Math.abs(rows[row]![column]!) > Math.abs(rows[pivot]![column]!)) pivot = row;
    [rows[column], rows[pivot]] = [rows[pivot]!, rows[column]!];
    for (let row = 0; row < size; row++) {
      if (row === column) continue;
      const factor = rows[row]![column]! / rows[column]![column]!;
      for (let at = column; at <= size; at++) rows[row]![at]! -= factor * rows[column]![at]!;
    }
  }
  return rows.map((row, index) => row[size]! / row[index]!);
}

/** `mass` is the integral of the kernel up to a distance. */
function underKernel({ mean, count }: BucketData, reach: number, mass: (distance: number) => number): Float64Array {
  const ends = new Float64Array(count.length);
  let total = 0;
  for (let index = 0; index < count.length; index++) ends[index] = total += count[index]!;
  const smoothed = new Float64Array(count.length);
  let start = 0;
  for (let index = 0; index < count.length; index++) {
    const centre = ends[index]! - 0.5;
    while (ends[start]! < centre - reach) start++;
    let [sum, gathered] = [0, 0];
    for (let at = start; at < count.length && ends[at]! - count[at]! <= centre + reach; at++) {
      if (!Number.isFinite(mean[at]!)) continue;
      const share = mass(ends[at]! - centre) - mass(ends[at]! - count[at]! - centre);
      sum += share * mean[at]!;
      gathered += share;
    }
    smoothed[index] = Number.isFinite(mean[index]!) ? sum / gathered : NaN;
  }
  return smoothed;
}

function decayed({ mean, count, firstX, lastX }: BucketData, weight: number, spacing: number): Float64Array {
  const smoothed = new Float64Array(count.length);
  let [sum, gathered, before] = [0, 0, NaN];
  for (let index = 0; index < count.length; index++) {
    const value = mean[index]!;
    if (!Number.isFinite(value)) {
      smoothed[index] = NaN;
      continue;
    }
    const points = count[index]!;
    const between = spacing > 0 && points > 1 ? weight ** ((lastX[index]! - firstX[index]!) / (points - 1) / spacing) : weight;
    const kept = spacing > 0 && !Number.isNaN(before) ? weight ** ((lastX[index]! - before) / spacing) : weight ** points;
    const own = between < 1 ? (1 - between ** points) / (1 - between) : points;
    before = lastX[index]!;
    sum = sum * kept + value * own;
    gathered = gathered * kept + own;
    smoothed[index] = sum / gathered;
  }
  return smoothed;
}

/** About the median distance between points. */
function pointDistance({ firstX, lastX, count }: BucketData): number {
  const distances: number[] = [];
  for (let index = 0; index < count.length; index++) if (count[index]! > 1) distances.push((lastX[index]! - firstX[index]!) / (count[index]! - 1));
  return distances.sort((one, other) => one - other)[distances.length >> 1] ?? 0;
}

/** The share of a normal distribution below a number of sigmas, to 1e-7. */
function normal(sigmas: number): number {
  const x = Math.abs(sigmas) / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * x);
  const tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * Math.exp(-x * x);
  return sigmas < 0 ? tail / 2 : 1 - tail / 2;
}
