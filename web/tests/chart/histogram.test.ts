import { expect, test } from "vitest";

import { countOutside, equalValues, innerExtent } from "../../src/chart/distribution.ts";
import { binUnder, histogramLabel } from "../../src/chart/histogram.ts";

const SIZE = { width: 400, height: 200 };
const distribution = { step: null, edges: Float64Array.of(0, 10), counts: Float64Array.of(4) };

test("a distribution of more than one step names none", () => {
  expect(histogramLabel({ label: "times", distribution, slot: 0 })).toBe("times, 1 bins");
  expect(
    histogramLabel({ label: "times", distribution: { ...distribution, step: 7 }, slot: 0 }),
  ).toBe("times at step 7, 1 bins");
});

test("the tooltip of a bin has the unit, and the step where there is one", () => {
  const point = { x: 200, y: 100 };
  expect(binUnder(point, SIZE, { label: "times", distribution, slot: 0, unit: "ms" })).toEqual({
    title: "0 to 10.0000 ms",
    rows: [{ label: "count", value: "4", note: "100.0\u00a0%" }],
  });
  expect(
    binUnder(point, SIZE, { label: "times", distribution: { ...distribution, step: 7 }, slot: 0 })
      ?.foot,
  ).toBe("step 7");
});

test("one far value does not make a needle of the rest, and is counted", () => {
  const edges = Float64Array.from({ length: 101 }, (_, index) => index);
  const counts = new Float64Array(100).map((_, index) => (index < 10 ? 500 : 0));
  counts[99] = 1;
  const far = { step: null, edges, counts };
  const shown = innerExtent([far]);
  expect(shown.max).toBeLessThan(12);
  expect(countOutside(far, shown)).toBe(1);
  expect(innerExtent([{ step: null, edges, counts: new Float64Array(100).fill(1) }])).toEqual({
    min: 0,
    max: 100,
  });
});

test("equal values are one mark that can be pointed at, and widen the axis of others only up to themselves", () => {
  const equal = { step: 0, ...equalValues(10, 4) };
  const options = { label: "gains", distribution: equal, slot: 0, range: { min: 0, max: 10 } };
  expect(histogramLabel(options)).toBe("gains at step 0, all values are 10.0000");
  expect(binUnder({ x: 390, y: 100 }, SIZE, options)).toEqual({
    title: "10.0000",
    rows: [{ label: "count", value: "4", note: "100.0\u00a0%" }],
    foot: "step 0",
  });
  expect(binUnder({ x: 300, y: 100 }, SIZE, options)).toBeNull();
  expect(countOutside(equal, { min: 0, max: 10 })).toBe(0);
  expect(countOutside(equal, { min: 0, max: 9 })).toBe(4);
  expect(
    innerExtent([equal, { step: 1, edges: Float64Array.of(10.5, 11), counts: Float64Array.of(1) }]),
  ).toEqual({ min: 10, max: 11 });
});
