/**
 * Smoothing where only slices of a series are at hand. A slice counts as its number of points, each of its mean. That is close to the truth where the
 * smoothing reaches over more points than a slice has; a weaker one is raised.
 */

import type { BucketData } from "./series.ts";
import type { Smoothing } from "./smooth.ts";

/** What a smoothing of slices is off at most, as a share of the range that a chart with noisy lines shows. */
export const SLICE_ERROR = 0.01;

/** The smoothed value at the last point of each slice. */
export function smoothSlices(data: BucketData, smoothing: Smoothing): Float64Array {
  if (smoothing.kind === "none") return data.last;
  if (smoothing.kind === "gaussian") return underKernel(data, smoothing.amount * 4, (distance) => normal(distance / smoothing.amount));
  if (smoothing.kind === "mean") {
    const reach = Math.trunc(smoothing.amount / 2) + 0.5;
    return underKernel(data, reach, (distance) => Math.max(-reach, Math.min(reach, distance)));
  }
  return decayed(data, smoothing.amount, smoothing.kind === "time-ema" ? pointDistance(data) : 0);
}

/** The same smoothing, raised where slices are too coarse to tell it within `SLICE_ERROR`. */
export function withinSlices(data: BucketData, smoothing: Smoothing): Smoothing {
  const coarse = data.count.filter((count) => count > 1).sort();
  if (smoothing.kind === "none" || coarse.length === 0) return smoothing;
  const points = coarse[coarse.length >> 1]!;
  // The noise of what a kernel differs from its steps over slices stays below a fiftieth of the noise of the points.
  if (smoothing.kind === "mean") return { kind: "mean", amount: Math.max(smoothing.amount, Math.ceil(40 * Math.sqrt(points))) };
  if (smoothing.kind === "gaussian") return { kind: "gaussian", amount: Math.max(smoothing.amount, (9 * points) ** (2 / 3)) };
  return { kind: smoothing.kind, amount: Math.max(smoothing.amount, 1 - 1 / (18 * points) ** (2 / 3)) };
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
