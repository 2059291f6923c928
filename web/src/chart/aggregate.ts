/** Several series as one: their mean and how far they spread, for runs that differ only in their seed. */

import { quantileSorted } from "./quantile.ts";
import { interpolate } from "./series.ts";

export type SpreadKind = "std" | "stderr" | "ci" | "minmax" | "iqr";

export interface Member {
  readonly x: Float64Array;
  readonly y: Float64Array;
  /** Of slices: the smallest and the largest value of each. */
  readonly low?: Float64Array;
  readonly high?: Float64Array;
}

export interface Aggregate {
  readonly x: Float64Array;
  readonly mean: Float64Array;
  readonly low: Float64Array;
  readonly high: Float64Array;
  /** Series that have a value at each x. */
  readonly count: Float64Array;
  /** Whether members were interpolated between their points; without it every number is exact. */
  readonly isInterpolated: boolean;
}

/** Join the members on all their x values; between its points a member is interpolated, outside its reach it does not count. */
export function aggregate(
  members: readonly Member[],
  kind: SpreadKind,
  isMedian = false,
): Aggregate {
  const x = unionOf(members.map((member) => member.x));
  const result: Aggregate = {
    x,
    mean: new Float64Array(x.length),
    low: new Float64Array(x.length),
    high: new Float64Array(x.length),
    count: new Float64Array(x.length),
    isInterpolated: members.some((member) => hasGaps(member.x, x)),
  };
  for (let index = 0; index < x.length; index++) {
    const values: number[] = [];
    for (const member of members) {
      const value = interpolate(member.x, member.y, x[index]!);
      if (Number.isFinite(value)) values.push(value);
    }
    const { mean, low, high } = summary(values, kind, isMedian);
    result.mean[index] = mean;
    result.low[index] = low;
    result.high[index] = high;
    result.count[index] = values.length;
  }
  return result;
}

/** Whether there are x values within the reach of a member at which it has no point. */
function hasGaps(own: Float64Array, x: Float64Array): boolean {
  if (own.length === 0) return false;
  const [first, last] = [own[0]!, own.at(-1)!];
  return x.filter((at) => at >= first && at <= last).length > new Set(own).size;
}

/** The mean of the members and the whole range that they cover, the extremes within slices included. */
export function overlaid(members: readonly Member[]): Aggregate {
  const result = aggregate(members, "minmax");
  for (const { x, low, high } of members) {
    if (low === undefined || high === undefined) continue;
    for (let index = 0; index < result.x.length; index++) {
      const [under, over] = [
        interpolate(x, low, result.x[index]!),
        interpolate(x, high, result.x[index]!),
      ];
      if (under < result.low[index]!) result.low[index] = under;
      if (over > result.high[index]!) result.high[index] = over;
    }
  }
  return result;
}

function summary(
  values: readonly number[],
  kind: SpreadKind,
  isMedian: boolean,
): { mean: number; low: number; high: number } {
  if (values.length === 0) return { mean: NaN, low: NaN, high: NaN };
  const average = values.reduce((sum, value) => sum + value, 0) / values.length;
  const sorted =
    kind === "minmax" || kind === "iqr" || isMedian ? Float64Array.from(values).sort() : null;
  const mean = isMedian ? quantileSorted(sorted!, 0.5) : average;
  if (kind === "minmax") return { mean, low: sorted![0]!, high: sorted!.at(-1)! };
  if (kind === "iqr")
    return { mean, low: quantileSorted(sorted!, 0.25), high: quantileSorted(sorted!, 0.75) };
  const squares = values.reduce((sum, value) => sum + (value - average) ** 2, 0);
  const deviation = values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : 0;
  const factor =
    kind === "std"
      ? 1
      : (kind === "ci" ? intervalFactor(values.length) : 1) / Math.sqrt(values.length);
  return { mean, low: mean - deviation * factor, high: mean + deviation * factor };
}

/** The quantile 0.975 of the t distribution for so many values; the normal distribution's, corrected, beyond the table. */
function intervalFactor(num: number): number {
  const df = num - 1;
  return T_975[df - 1] ?? 1.959964 + 2.3722 / df + 2.8225 / df ** 2;
}

const T_975 = [
  12.7062, 4.30265, 3.18245, 2.77645, 2.57058, 2.44691, 2.36462, 2.306, 2.26216, 2.22814,
];

function unionOf(parts: readonly Float64Array[]): Float64Array {
  const all = new Float64Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  all.sort();
  return all.filter((value, index) => index === 0 || value !== all[index - 1]);
}
