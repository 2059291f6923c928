import { expect, test } from "vitest";

import {
  continued,
  ema,
  SLICE_ERROR,
  smoothingText,
  smoothingWeight,
  smoothSlices,
} from "../../src/chart/smooth.ts";
import vectors from "./vectors.json" with { type: "json" };

const values = Float64Array.from(vectors.smooth.values, (value) => value ?? NaN);

test.each(Object.entries(vectors.smooth.ema))(
  "ema of weight %s agrees with the recording side",
  (weight, wanted) => {
    const found = ema(values, Number(weight));
    wanted.forEach((value, index) => {
      if (value === null) expect(found[index]).toBeNaN();
      else expect(found[index]).toBeCloseTo(value, 10);
    });
  },
);

test("a state continues a moving average", () => {
  const flat = Float64Array.of(3, 5, 4);
  const [sum, gathered] = continued([5 + 0.9 * 3, 1.9, 1, 0], 0.9, 2, 4);
  expect(sum / gathered).toBeCloseTo(ema(flat, 0.9)[2]!, 12);
});

test("a smoothing is written for a request and read back", () => {
  expect([smoothingText(0.9), smoothingText(0), smoothingWeight("ema:0.9")]).toEqual([
    "ema:0.9",
    "",
    0.9,
  ]);
});

const POINTS = 40_000;
/** The averages that archives keep; `SMOOTHED_WEIGHTS` of `exports/archive_series.py`. */
const KEPT = [0, 1 / 3, 2 / 3, 7 / 8, 29 / 30, 109 / 110];
const X = Float64Array.from({ length: POINTS }, (_, step) => step);
const Y = noisyLoss();

/** A loss that falls quickly, then slowly, with noise that shrinks with it. */
function noisyLoss(): Float64Array {
  let seed = 7;
  const random = (): number => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed / 2147483648;
  };
  return X.map((step) => {
    const level = 2 + 6 * Math.exp(-step / 1500);
    return level * (1 + 0.02 * (random() + random() + random() - 1.5));
  });
}

function slices(size: number): {
  readonly columns: Record<string, Float64Array>;
  readonly last: Float64Array;
} {
  const last = Float64Array.from(
    { length: Math.ceil(POINTS / size) },
    (_, index) => Math.min(POINTS, (index + 1) * size) - 1,
  );
  const averages = KEPT.map((weight) => {
    const smoothed = ema(Y, weight);
    return [`ema:${weight}`, last.map((at) => smoothed[at]!)];
  });
  return { last, columns: Object.fromEntries(averages) as Record<string, Float64Array> };
}

/** The largest difference as a share of what a chart of these steps shows. */
function worst(
  found: Float64Array,
  wanted: Float64Array,
  last: Float64Array,
  [from, to]: readonly [number, number],
): number {
  const shown = Y.slice(from, to).sort();
  const range = shown.at(-1)! - shown[0]!;
  let most = 0;
  last.forEach((at, index) => {
    if (at >= from && at < to) most = Math.max(most, Math.abs(found[index]! - wanted[at]!) / range);
  });
  return most;
}

const VIEWS = [
  [0, POINTS],
  [20_000, 40_000],
  [30_000, 31_000],
] as const;
const SLICED = [3, 16, 40].map((size) => ({ size, ...slices(size) }));

test.each([0.1, 0.3, 0.5, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99])(
  "slices smoothed by %s are within a hundredth of the visible range",
  (weight) => {
    const wanted = ema(Y, weight);
    for (const { size, columns, last } of SLICED) {
      const found = smoothSlices(columns, weight);
      for (const view of VIEWS)
        expect(
          worst(found, wanted, last, view),
          `slices of ${size}, steps ${view.join("-")}`,
        ).toBeLessThan(SLICE_ERROR);
    }
  },
);
