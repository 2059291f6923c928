import { expect, test } from "vitest";

import { interpolate, lowerBound, merged, nearestIndex, prepare } from "../../src/chart/series.ts";
import type { BucketData } from "../../src/chart/series.ts";

const of = (...values: number[]): Float64Array => Float64Array.from(values);

const BUCKETS: BucketData = {
  kind: "buckets",
  firstX: of(0, 10),
  lastX: of(9, 10),
  minX: of(2, 10),
  maxX: of(7, 10),
  last: 4,
  mean: of(2, 4),
  min: of(1, 4),
  max: of(8, 4),
  count: of(10, 1),
  nonfiniteX: of(4),
  nonfinite: of(Infinity),
};

test("a slice is drawn as its mean in its middle, a slice of one point where the point is", () => {
  const trace = prepare({ id: "a", label: "a", slot: 0, data: BUCKETS });
  expect([...trace.x]).toEqual([4.5, 10]);
  expect([...trace.y]).toEqual([2, 4]);
  expect([...trace.nonfinite]).toEqual([Infinity]);
});

test("samples are merged by their number of points, without those that are nan", () => {
  const samples = {
    ...prepare({ id: "a", label: "a", slot: 0, data: BUCKETS }),
    x: of(0, 1, 2),
    y: of(2, NaN, 4.2),
    min: of(1, NaN, 4),
    max: of(8, NaN, 5),
    minX: of(2, 10, 30),
    maxX: of(7, 11, 31),
    count: of(10, 3, 1),
  };
  expect(merged(samples, 0, 3)).toEqual({
    mean: 24.2 / 11,
    min: 1,
    max: 8,
    minX: 2,
    maxX: 7,
    points: 11,
  });
  expect(merged(samples, 1, 2).mean).toBeNaN();
});

test("raw values that are not finite leave the line and are kept apart", () => {
  const data = { kind: "raw", x: of(0, 1, 2, 3), y: of(1, NaN, -Infinity, 2) } as const;
  const trace = prepare({ id: "a", label: "a", slot: 0, data });
  expect([...trace.y]).toEqual([1, NaN, NaN, 2]);
  expect([...trace.nonfiniteX]).toEqual([1, 2]);
  expect([...trace.nonfinite]).toEqual([NaN, -Infinity]);
  expect(data.y[2]).toBe(-Infinity);
});

test("finite raw data is not copied", () => {
  const data = { kind: "raw", x: of(0, 1), y: of(1, 2) } as const;
  expect(prepare({ id: "a", label: "a", slot: 0, data }).y).toBe(data.y);
});

test("the nearest x is found, and a tie takes the earlier", () => {
  expect([0, 4, 5, 6, 99].map((value) => nearestIndex([0, 10, 20], value))).toEqual([
    0, 0, 0, 1, 2,
  ]);
  expect(nearestIndex([], 3)).toBe(-1);
  expect(lowerBound([1, 1, 2], 1)).toBe(0);
});

test("between points a line is straight, outside it has no value", () => {
  const [x, y] = [of(0, 10), of(1, 3)];
  expect([interpolate(x, y, 5), interpolate(x, y, 0), interpolate(x, y, 10)]).toEqual([2, 1, 3]);
  expect([interpolate(x, y, -1), interpolate(x, y, 11)]).toEqual([NaN, NaN]);
});
