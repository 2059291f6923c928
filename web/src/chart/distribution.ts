/** Histograms as data: bins with edges that may differ from step to step. */

import { padRange } from "./scale.ts";
import type { Range } from "./scale.ts";

export interface Distribution {
  /** Null for values of more than one step. */
  readonly step: number | null;
  /** One more than there are bins, ascending; equal values are one bin without width. */
  readonly edges: Float64Array;
  readonly counts: Float64Array;
}

/** A distribution of the values at one step. */
export interface StepDistribution extends Distribution {
  readonly step: number;
}

/** The distribution of `count` equal values. */
export function equalValues(value: number, count: number): Pick<Distribution, "edges" | "counts"> {
  return { edges: Float64Array.of(value, value), counts: Float64Array.of(count) };
}

/** The value that all have; null where they differ. */
export function onlyValue({ edges, counts }: Distribution): number | null {
  return counts.length === 1 && edges[0] === edges[1] ? edges[0]! : null;
}

export function total(counts: Float64Array): number {
  let sum = 0;
  for (const count of counts) sum += count;
  return sum;
}

/** Value below which a share `q` of the counts lies, even within a bin; nan of an empty distribution. */
export function distributionQuantile({ edges, counts }: Distribution, q: number): number {
  const wanted = q * total(counts);
  if (!(total(counts) > 0)) return NaN;
  let below = 0;
  for (let bin = 0; bin < counts.length; bin++) {
    const count = counts[bin]!;
    if (count > 0 && below + count >= wanted) {
      const share = Math.max(0, (wanted - below) / count);
      return edges[bin]! + (edges[bin + 1]! - edges[bin]!) * share;
    }
    below += count;
  }
  return edges.at(-1)!;
}

/**
 * Density at each place, which must ascend: counts by bin width, so that bins of unequal width compare, straight between
 * the middles of the bins; 0 outside.
 */
export function densityAt({ edges, counts }: Distribution, places: Float64Array): Float64Array {
  const all = total(counts) || 1;
  const result = new Float64Array(places.length);
  const middle = (bin: number): number => (edges[bin]! + edges[bin + 1]!) / 2;
  const density = (bin: number): number => {
    const width = (edges[bin + 1] ?? NaN) - (edges[bin] ?? NaN);
    return width > 0 ? counts[bin]! / (all * width) : 0;
  };
  let bin = 0;
  for (let index = 0; index < places.length; index++) {
    const place = places[index]!;
    if (counts.length === 0 || place < edges[0]! || place > edges.at(-1)!) continue;
    while (bin < counts.length - 1 && place > middle(bin + 1)) bin++;
    if (place <= middle(bin) || bin === counts.length - 1) result[index] = density(bin);
    else
      result[index] =
        density(bin) +
        ((density(bin + 1) - density(bin)) * (place - middle(bin))) /
          (middle(bin + 1) - middle(bin));
  }
  return result;
}

/** So small a share of the values may lie outside what a histogram shows. */
const OUTER_SHARE = 0.002;

/** The values that nearly all of a distribution lie between; nan of an empty one. */
export function innerRange(distribution: Distribution): Range {
  return {
    min: distributionQuantile(distribution, OUTER_SHARE),
    max: distributionQuantile(distribution, 1 - OUTER_SHARE),
  };
}

/** The values that nearly all of every distribution lie within, with a little air: one far value must not make a needle of the rest. */
export function innerExtent(distributions: readonly Distribution[]): Range {
  const whole = distributionExtent(distributions);
  let [min, max] = [Infinity, -Infinity];
  for (const one of distributions) {
    if (!(total(one.counts) > 0)) continue;
    const inner = innerRange(one);
    min = Math.min(min, inner.min);
    max = Math.max(max, inner.max);
  }
  if (!(max > min)) return whole;
  const air = (max - min) * 0.08;
  // Where little would be gained, everything is shown.
  if (whole.max - whole.min < 2.5 * (max - min)) return whole;
  return { min: Math.max(whole.min, min - air), max: Math.min(whole.max, max + air) };
}

/** Values of a distribution outside a range. */
export function countOutside({ edges, counts }: Distribution, { min, max }: Range): number {
  let outside = 0;
  counts.forEach((count, bin) => {
    const [from, to] = [edges[bin]!, edges[bin + 1]!];
    // A bin without width at the end of the range is seen.
    if ((to <= min && from < min) || (from >= max && to > max)) outside += count;
  });
  return outside;
}

/** The edges that all distributions lie within. */
export function distributionExtent(distributions: readonly Distribution[]): Range {
  const ends = distributions.flatMap(({ edges }) =>
    edges.length === 0 ? [] : [edges[0]!, edges.at(-1)!],
  );
  const [min, max] = [Math.min(...ends), Math.max(...ends)];
  if (!(min <= max)) return { min: 0, max: 1 };
  return min < max ? { min, max } : padRange("linear", { min, max }, 0);
}
