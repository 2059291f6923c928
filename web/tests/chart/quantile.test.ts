import { expect, test } from "vitest";

import { quantileSorted, rangeWithoutOutliers, sortedFinite } from "../../src/chart/quantile.ts";

test("quantiles are interpolated", () => {
  expect([0, 0.25, 0.5, 1].map((q) => quantileSorted([1, 2, 3, 4], q))).toEqual([1, 1.75, 2.5, 4]);
  expect(quantileSorted([], 0.5)).toBeNaN();
});

test("a series without outliers keeps its whole range", () => {
  const even = Float64Array.from({ length: 101 }, (_, index) => index);
  expect(rangeWithoutOutliers(even)).toEqual({ min: 0, max: 100 });
});

test("a lone spike is left out", () => {
  const spiked = sortedFinite(
    Float64Array.from({ length: 200 }, (_, index) =>
      index === 77 ? 1e6 : index === 3 ? NaN : index / 100,
    ),
  );
  expect(rangeWithoutOutliers(spiked)!.max).toBeLessThan(4);
  expect(rangeWithoutOutliers(new Float64Array(0))).toBeNull();
});
