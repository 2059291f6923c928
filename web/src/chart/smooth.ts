/**
 * Smoothed copies of a series, over every point, as `epochal.series.smooth` computes them. Points that are not finite keep their place and count for
 * nothing elsewhere. `smooth-slices.ts` does it where only slices are at hand.
 */

export type SmoothingKind = "ema" | "time-ema" | "gaussian" | "mean";

/** `amount` is a weight below 1 for averages that decay, a number of points for the others: sigma, or the width of the window. */
export type Smoothing = { readonly kind: "none" } | { readonly kind: SmoothingKind; readonly amount: number };

export const NO_SMOOTHING: Smoothing = { kind: "none" };

const RADIUS_SIGMAS = 4;

export function smooth(values: Float64Array, x: Float64Array, smoothing: Smoothing): Float64Array {
  switch (smoothing.kind) {
    case "none":
      return values;
    case "ema":
      return ema(values, smoothing.amount);
    case "time-ema":
      return timeEma(values, x, smoothing.amount);
    case "gaussian":
      return gaussian(values, smoothing.amount);
    case "mean":
      return mean(values, smoothing.amount);
  }
}

export function isSmoothing(smoothing: Smoothing): boolean {
  return smoothing.kind !== "none" && smoothing.amount > (smoothing.kind === "mean" ? 1 : 0);
}

/** As requests have it, such as `ema:0.9`; empty for none. */
export function smoothingText(smoothing: Smoothing): string {
  return smoothing.kind === "none" || !isSmoothing(smoothing) ? "" : `${smoothing.kind}:${Number(smoothing.amount.toPrecision(6))}`;
}

export function parseSmoothing(text: string): Smoothing {
  const [, kind, amount] = /^(ema|time-ema|gaussian|mean):(.+)$/.exec(text) ?? [];
  return kind === undefined ? NO_SMOOTHING : { kind: kind as SmoothingKind, amount: Number(amount) };
}

/** Debiased exponential moving average; a point counts `weight` times the one after it, 0 <= weight < 1. */
export function ema(values: Float64Array, weight: number): Float64Array {
  return decayed(values, weight, () => weight);
}

/** The same with a weight that decays over x: it counts once over the median distance between points. */
export function timeEma(values: Float64Array, x: Float64Array, weight: number): Float64Array {
  const known = x.filter((_, index) => Number.isFinite(values[index]!));
  const spacing = medianDistance(known);
  let last = NaN;
  return decayed(values, weight, (index) => {
    const kept = spacing > 0 && !Number.isNaN(last) ? weight ** ((x[index]! - last) / spacing) : weight;
    last = x[index]!;
    return kept;
  });
}

function decayed(values: Float64Array, weight: number, keptBefore: (index: number) => number): Float64Array {
  if (!(weight >= 0 && weight < 1)) throw new RangeError(`weight must be at least 0 and below 1, got ${weight}`);
  if (weight === 0) return values.slice();
  const smoothed = new Float64Array(values.length);
  let sum = 0;
  let gathered = 0;
  for (let index = 0; index < values.length; index++) {
    const value = values[index]!;
    if (Number.isFinite(value)) {
      const kept = keptBefore(index);
      sum = sum * kept + value;
      gathered = gathered * kept + 1;
      smoothed[index] = sum / gathered;
    } else {
      smoothed[index] = value;
    }
  }
  return smoothed;
}

/** What continues a moving average: sum, weight, x of the last point, and the distance over which the weight counts once (0: every point counts once). */
export type SmoothState = readonly [sum: number, gathered: number, lastX: number, spacing: number];

/** The average after one more finite point. */
export function continued([sum, gathered, lastX, spacing]: SmoothState, weight: number, x: number, y: number): SmoothState {
  const kept = spacing > 0 ? weight ** ((x - lastX) / spacing) : weight;
  return [sum * kept + y, gathered * kept + 1, x, spacing];
}

/** Average under a Gaussian of `sigma` points, cut at four sigma; edges and gaps are not pulled to zero. */
export function gaussian(values: Float64Array, sigma: number): Float64Array {
  if (!(sigma >= 0 && Number.isFinite(sigma))) throw new RangeError(`sigma must be finite and at least 0, got ${sigma}`);
  if (sigma === 0 || values.length === 0) return values.slice();
  const radius = Math.min(Math.trunc(RADIUS_SIGMAS * sigma), values.length - 1);
  return underKernel(values, Float64Array.from({ length: radius + 1 }, (_, distance) => Math.exp(-0.5 * (distance / sigma) ** 2)));
}

/** Average of the `window` points around each point, fewer at the ends; an even window is one wider. */
export function mean(values: Float64Array, window: number): Float64Array {
  const radius = Math.min(Math.trunc(window / 2), Math.max(0, values.length - 1));
  return underKernel(values, new Float64Array(radius + 1).fill(1));
}

function underKernel(values: Float64Array, kernel: Float64Array): Float64Array {
  const smoothed = new Float64Array(values.length);
  for (let index = 0; index < values.length; index++) {
    smoothed[index] = Number.isFinite(values[index]!) ? weighted(values, index, kernel) : values[index]!;
  }
  return smoothed;
}

function weighted(values: Float64Array, centre: number, kernel: Float64Array): number {
  const radius = kernel.length - 1;
  let sum = 0;
  let gathered = 0;
  const stop = Math.min(values.length - 1, centre + radius);
  for (let index = Math.max(0, centre - radius); index <= stop; index++) {
    const value = values[index]!;
    if (!Number.isFinite(value)) continue;
    const weight = kernel[Math.abs(index - centre)]!;
    sum += weight * value;
    gathered += weight;
  }
  return sum / gathered;
}

/** The median of the distances above 0 between neighbours; 0 where there is none. */
export function medianDistance(x: Float64Array): number {
  const distances: number[] = [];
  for (let index = 1; index < x.length; index++) if (x[index]! > x[index - 1]!) distances.push(x[index]! - x[index - 1]!);
  if (distances.length === 0) return 0;
  const sorted = Float64Array.from(distances).sort();
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
