import { expect, test } from "vitest";

import type { RawData, SeriesData } from "../../src/chart/series.ts";
import { extended, appendPoints, lastOf } from "../../src/state/append-points.ts";

function raw(x: number[], y: number[]): RawData {
  return { kind: "raw", x: Float64Array.from(x), y: Float64Array.from(y) };
}

test("points are put at the end, and what was there stays as it was", () => {
  const before = raw([0, 1], [5, 6]);
  const once = appendPoints(before, { x: [2], y: [7] });
  const twice = appendPoints(once!, { x: [3, 4], y: [8, NaN] });
  expect(twice).toEqual(raw([0, 1, 2, 3, 4], [5, 6, 7, 8, NaN]));
  expect(once).toEqual(raw([0, 1, 2], [5, 6, 7]));
  expect(before.x.length).toBe(2);
});

test("two series that grew from one do not write over each other", () => {
  const start = appendPoints(raw([0], [0]), { x: [1], y: [1] })!;
  const one = appendPoints(start, { x: [2], y: [2] });
  const other = appendPoints(start, { x: [2], y: [99] });
  expect(one).toEqual(raw([0, 1, 2], [0, 1, 2]));
  expect(other).toEqual(raw([0, 1, 2], [0, 1, 99]));
});

test("a point at the last x replaces the last one", () => {
  expect(appendPoints(raw([0, 1], [5, 6]), { x: [1, 2], y: [60, 7] })).toEqual(
    raw([0, 1, 2], [5, 60, 7]),
  );
});

test("a point further back cannot be put in", () => {
  expect(appendPoints(raw([0, 5], [1, 1]), { x: [3], y: [1] })).toBeNull();
});

test("slices grow by slices of one point; what is not finite is marked", () => {
  const one = Float64Array.of(1);
  const slices: SeriesData = {
    kind: "buckets",
    firstX: Float64Array.of(0),
    lastX: Float64Array.of(9),
    minX: Float64Array.of(2),
    maxX: Float64Array.of(7),
    last: 1,
    mean: one,
    min: one,
    max: one,
    count: Float64Array.of(10),
    nonfiniteX: new Float64Array(0),
    nonfinite: new Float64Array(0),
  };
  const grown = appendPoints(slices, { x: [10, 11], y: [2, NaN] });
  expect(grown).toMatchObject({
    maxX: Float64Array.of(7, 10),
    last: 2,
    mean: Float64Array.of(1, 2),
    count: Float64Array.of(10, 1),
    nonfiniteX: Float64Array.of(11),
  });
  expect(lastOf(grown!)).toBeNaN();
  expect(appendPoints(slices, { x: [9], y: [2] })).toBeNull();
});

test("growing point by point copies seldom", () => {
  let values = new Float64Array(0);
  const buffers = new Set<ArrayBufferLike>();
  for (let index = 0; index < 1000; index++) {
    values = extended(values, [index]) as Float64Array<ArrayBuffer>;
    buffers.add(values.buffer);
  }
  expect(values.length).toBe(1000);
  expect(buffers.size).toBeLessThan(10);
});
