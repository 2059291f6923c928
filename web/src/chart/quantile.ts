/** Quantiles, and the y range that ignores outliers. */

import type { Range } from "./scale.ts";

/** Interpolated quantile of ascending values, 0 <= q <= 1; of nothing it is nan. */
export function quantileSorted(ascending: ArrayLike<number>, q: number): number {
  if (ascending.length === 0) return NaN;
  const at = q * (ascending.length - 1);
  const below = Math.floor(at);
  const low = ascending[below]!;
  const high = ascending[Math.min(below + 1, ascending.length - 1)]!;
  return low + (high - low) * (at - below);
}

/** Return the finite values, ascending. */
export function sortedFinite(values: Float64Array): Float64Array {
  return values.filter(Number.isFinite).sort();
}

/**
 * The range of ascending values without outliers: quantiles `share` and `1 - share`, each widened by half their
 * distance, but never beyond the values themselves. A series without outliers keeps its whole range.
 */
export function rangeWithoutOutliers(ascending: Float64Array, share = 0.02): Range | null {
  if (ascending.length === 0) return null;
  const low = quantileSorted(ascending, share);
  const high = quantileSorted(ascending, 1 - share);
  const margin = (high - low) * 0.5;
  return {
    min: Math.max(ascending[0]!, low - margin),
    max: Math.min(ascending.at(-1)!, high + margin),
  };
}
