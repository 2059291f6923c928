import { expect, test } from "vitest";

import { picturedSize, zoomedAt } from "../../src/panels/parts/zoom-frame.tsx";
import { distributionOf } from "../../src/panels/histograms.tsx";
import { bucketNote, bucketWidth } from "../../src/panels/parts/bucket-note.ts";
import { parseStep, stepBy } from "../../src/panels/parts/step-slider.tsx";
import type { BucketData } from "../../src/chart/index.ts";

test("a histogram has one more edge than bins", () => {
  const found = distributionOf({
    step: 5,
    record: { lo: 0, hi: 2, counts: [1, 3], mean: 1.2, nonfinite_count: 4 },
  });
  expect(found?.distribution).toEqual({
    step: 5,
    edges: Float64Array.of(0, 1, 2),
    counts: Float64Array.of(1, 3),
  });
  expect(found).toMatchObject({ mean: 1.2, std: null, numNonfinite: 4 });
});

test.each([
  { lo: 3, hi: 3, counts: [7, 0] },
  { lo: 2.5, hi: 3.5, counts: [0, 7, 0], min: 3, max: 3 },
])("equal values are at their value, whichever bins they were counted in", (record) => {
  expect(distributionOf({ step: 0, record })?.distribution).toEqual({
    step: 0,
    edges: Float64Array.of(3, 3),
    counts: Float64Array.of(7),
  });
});

test.each([{}, { lo: 0, hi: 1, counts: [] }, { lo: null, hi: 1, counts: [1] }])(
  "a record that is no histogram is none",
  (record) => {
    expect(distributionOf({ step: 0, record })).toBeNull();
  },
);

test("zooming keeps the point under the pointer", () => {
  const place = zoomedAt({ scale: 2, x: 10, y: 0 }, 1.5, { x: 100, y: 50 });
  expect(place.scale).toBe(3);
  expect((100 - place.x) / 3).toBeCloseTo((100 - 10) / 2);
});

test("a picture's size is read from its viewBox, else from its width and height", () => {
  expect(picturedSize('<svg viewBox="0 0 260 60">')).toEqual({ width: 260, height: 60 });
  expect(picturedSize('<?xml?><svg width="100pt" height="50pt">')).toEqual({
    width: 100,
    height: 50,
  });
  expect(picturedSize("<svg>")).toBeNull();
});

test("steps are walked through one by one, and the last is the newest", () => {
  const steps = [5, 20, 30];
  expect(stepBy(steps, null, -1)).toBe(20);
  expect(stepBy(steps, 12, -1)).toBe(5);
  expect(stepBy(steps, 5, -1)).toBe(5);
  expect(stepBy(steps, 20, 1)).toBeNull();
  expect(stepBy([], null, 1)).toBeNull();
  expect([parseStep(""), parseStep("12"), parseStep("x")]).toEqual([null, 12, null]);
});

function slices(firstX: readonly number[], count: readonly number[]): BucketData {
  const column = Float64Array.from(firstX);
  const empty = new Float64Array(0);
  return {
    kind: "buckets",
    firstX: column,
    lastX: column,
    minX: column,
    maxX: column,
    last: null,
    mean: column,
    min: column,
    max: column,
    count: Float64Array.from(count),
    nonfiniteX: empty,
    nonfinite: empty,
  };
}

test("buckets say how many steps they hold; single points do not count", () => {
  const data = slices([0, 40, 80, 81, 82, 120], [40, 40, 1, 1, 38, 40]);
  expect(bucketWidth(data)).toBe(40);
  expect(bucketNote([{ data }], "step")).toBe("1 bucket = 40 steps");
  expect(bucketNote([{ data: slices([0, 1], [1, 1]) }], "step")).toBeNull();
  expect(
    bucketNote([{ data: { kind: "raw", x: new Float64Array(0), y: new Float64Array(0) } }], "step"),
  ).toBeNull();
});
