/** Smoothed copies of a series. Points that are not finite keep their place and count for nothing elsewhere. */

export type Smoothing =
  | { readonly kind: "none" }
  | { readonly kind: "ema"; readonly weight: number }
  | { readonly kind: "gaussian"; readonly sigma: number };

export const NO_SMOOTHING: Smoothing = { kind: "none" };

const RADIUS_SIGMAS = 4;

export function smooth(values: Float64Array, smoothing: Smoothing): Float64Array {
  switch (smoothing.kind) {
    case "none":
      return values;
    case "ema":
      return ema(values, smoothing.weight);
    case "gaussian":
      return gaussian(values, smoothing.sigma);
  }
}

export function isSmoothing(smoothing: Smoothing): boolean {
  return (smoothing.kind === "ema" && smoothing.weight > 0) || (smoothing.kind === "gaussian" && smoothing.sigma > 0);
}

/** Debiased exponential moving average; a point counts `weight` times the one after it, 0 <= weight < 1. */
export function ema(values: Float64Array, weight: number): Float64Array {
  if (!(weight >= 0 && weight < 1)) throw new RangeError(`weight must be at least 0 and below 1, got ${weight}`);
  const smoothed = new Float64Array(values.length);
  let sum = 0;
  let batched = 0;
  for (let index = 0; index < values.length; index++) {
    const value = values[index]!;
    if (Number.isFinite(value)) {
      sum = sum * weight + value * (1 - weight);
      batched = batched * weight + (1 - weight);
      smoothed[index] = sum / batched;
    } else {
      smoothed[index] = value;
    }
  }
  return smoothed;
}

/** Average under a Gaussian of `sigma` points, cut at four sigma; edges and gaps are not pulled to zero. */
export function gaussian(values: Float64Array, sigma: number): Float64Array {
  if (!(sigma >= 0 && Number.isFinite(sigma))) throw new RangeError(`sigma must be finite and at least 0, got ${sigma}`);
  if (sigma === 0 || values.length === 0) return values.slice();
  const radius = Math.min(Math.trunc(RADIUS_SIGMAS * sigma), values.length - 1);
  const kernel = Float64Array.from({ length: radius + 1 }, (_, distance) => Math.exp(-0.5 * (distance / sigma) ** 2));
  const smoothed = new Float64Array(values.length);
  for (let index = 0; index < values.length; index++) {
    smoothed[index] = Number.isFinite(values[index]!) ? weighted(values, index, kernel) : values[index]!;
  }
  return smoothed;
}

function weighted(values: Float64Array, centre: number, kernel: Float64Array): number {
  const radius = kernel.length - 1;
  let sum = 0;
  let batched = 0;
  const stop = Math.min(values.length - 1, centre + radius);
  for (let index = Math.max(0, centre - radius); index <= stop; index++) {
    const value = values[index]!;
    if (!Number.isFinite(value)) continue;
    const weight = kernel[Math.abs(index - centre)]!;
    sum += weight * value;
    batched += weight;
  }
  return sum / batched;
}
