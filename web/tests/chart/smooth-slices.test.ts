import { expect, test } from "vitest";

import type { BucketData } from "../../src/chart/series.ts";
import { SLICE_ERROR, smoothSlices, withinSlices } from "../../src/chart/smooth-slices.ts";
import { smooth } from "../../src/chart/smooth.ts";
import type { Smoothing } from "../../src/chart/smooth.ts";

const POINTS = 40_000;
const X = Float64Array.from({ length: POINTS }, (_, step) => step);
const Y = noisyLoss();

/** A loss that falls quickly, then slowly, with noise that shrinks with it. */
function noisyLoss(): Float64Array {
  let seed = 7;
  const random = (): number => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
  return X.map((step) => {
    const level = 2 + 6 * Math.exp(-step / 1500);
    return level * (1 + 0.02 * (random() + random() + random() - 1.5));
  });
}

function slices(size: number): { readonly data: BucketData; readonly last: Float64Array } {
  const count = Math.ceil(POINTS / size);
  const each = (pick: (from: number, to: number) => number): Float64Array => Float64Array.from({ length: count }, (_, index) => pick(index * size, Math.min(POINTS, (index + 1) * size)));
  const last = each((_, to) => to - 1);
  const none = new Float64Array(0);
  const data: BucketData = {
    kind: "buckets", firstX: each((from) => from), lastX: last, last: last.map((at) => Y[at]!),
    mean: each((from, to) => Y.subarray(from, to).reduce((sum, value) => sum + value, 0) / (to - from)),
    min: each((from, to) => Math.min(...Y.subarray(from, to))), max: each((from, to) => Math.max(...Y.subarray(from, to))),
    count: each((from, to) => to - from), nonfiniteX: none, nonfinite: none,
  };
  return { data, last };
}

/** The largest difference as a share of what a chart of these steps shows. */
function worst(found: Float64Array, wanted: Float64Array, last: Float64Array, [from, to]: readonly [number, number]): number {
  const shown = Y.slice(from, to).sort();
  const range = shown.at(-1)! - shown[0]!;
  let most = 0;
  last.forEach((at, index) => {
    if (at >= from && at < to) most = Math.max(most, Math.abs(found[index]! - wanted[at]!) / range);
  });
  return most;
}

const VIEWS = [[0, POINTS], [20_000, 40_000], [30_000, 31_000]] as const;
const KINDS: readonly Smoothing[] = [
  ...[0.1, 0.3, 0.5, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99].map((amount): Smoothing => ({ kind: "ema", amount })),
  { kind: "time-ema", amount: 0.9 }, { kind: "gaussian", amount: 4 }, { kind: "gaussian", amount: 49 }, { kind: "mean", amount: 9 }, { kind: "mean", amount: 199 },
];

const SLICED = [3, 16, 40].map((size) => ({ size, ...slices(size) }));

test.each(KINDS.map((kind) => [JSON.stringify(kind), kind] as const))("slices smoothed by %s are within a hundredth of the visible range", (_, kind) => {
  for (const { size, data, last } of SLICED) {
    const actual = withinSlices(data, kind);
    const wanted = smooth(Y, X, actual);
    const found = smoothSlices(data, actual);
    for (const view of VIEWS) expect(worst(found, wanted, last, view), `slices of ${size}, steps ${view.join("-")}`).toBeLessThan(SLICE_ERROR);
  }
});

test("a smoothing that slices cannot tell is raised, a stronger one is not", () => {
  const { data } = slices(16);
  expect(withinSlices(data, { kind: "ema", amount: 0.6 })).not.toEqual({ kind: "ema", amount: 0.6 });
  expect(withinSlices(data, { kind: "ema", amount: 0.99 })).toEqual({ kind: "ema", amount: 0.99 });
});

test("a slice without a finite point has no smoothed value", () => {
  const { data } = slices(40);
  const hole = (value: number, index: number): number => (index === 5 ? NaN : value);
  const holed = { ...data, last: data.last.map(hole), mean: data.mean.map(hole) };
  for (const kind of KINDS) {
    const found = smoothSlices(holed, kind);
    expect(found[5]).toBeNaN();
    expect(found[6]).not.toBeNaN();
  }
});
