/** The arithmetic of the smaller charts. */

import { expect, test } from "vitest";

import { aggregate } from "../../src/chart/aggregate.ts";
import { stackShares } from "../../src/chart/bars.ts";
import {
  densityAt,
  distributionExtent,
  distributionQuantile,
} from "../../src/chart/distribution.ts";
import { rampIndex, reduceRow } from "../../src/chart/heatmap.ts";
import { blocks } from "../../src/chart/lanes.ts";
import { rampColor } from "../../src/chart/ramp.ts";
import { ridgeBases, thinned } from "../../src/chart/ridge.ts";
import { createScale } from "../../src/chart/scale.ts";
import { createSyncBus } from "../../src/chart/sync.ts";

const of = (...values: number[]): Float64Array => Float64Array.from(values);
const EVEN = { step: 0, edges: of(0, 1, 2, 4), counts: of(10, 10, 20) };

test("an aggregate joins members on all x, each only within its reach", () => {
  const found = aggregate(
    [
      { x: of(0, 2), y: of(0, 2) },
      { x: of(1, 3), y: of(3, 5) },
    ],
    "minmax",
  );
  expect([...found.x]).toEqual([0, 1, 2, 3]);
  expect([...found.mean]).toEqual([0, 2, 3, 5]);
  expect([...found.low]).toEqual([0, 1, 2, 5]);
  expect([...found.count]).toEqual([1, 2, 2, 1]);
});

test("a spread is one deviation of the sample, or that of the mean", () => {
  const members = [1, 2, 3, 4].map((value) => ({ x: of(0), y: of(value) }));
  expect(aggregate(members, "std").high[0]).toBeCloseTo(2.5 + 1.2909944, 6);
  expect(aggregate(members, "stderr").high[0]).toBeCloseTo(2.5 + 0.6454972, 6);
  expect(aggregate([], "std").x).toHaveLength(0);
  expect(aggregate(members, "std").isInterpolated).toBe(false);
  expect(
    aggregate(
      [
        { x: of(0, 2), y: of(0, 2) },
        { x: of(0, 1, 2), y: of(0, 1, 2) },
      ],
      "std",
    ).isInterpolated,
  ).toBe(true);
});

test("quantiles of a histogram lie inside its bins", () => {
  expect([0, 0.25, 0.5, 0.75, 1].map((q) => distributionQuantile(EVEN, q))).toEqual([
    0, 1, 2, 3, 4,
  ]);
  expect(distributionQuantile({ ...EVEN, counts: of(0, 0, 0) }, 0.5)).toBeNaN();
});

test("density takes the width of bins into account and is zero outside", () => {
  expect([...densityAt(EVEN, of(-1, 0.5, 1.5, 3, 5))]).toEqual([0, 0.25, 0.25, 0.25, 0]);
});

test("distributions of nothing, or of one value, still have an extent", () => {
  expect(distributionExtent([])).toEqual({ min: 0, max: 1 });
  expect(distributionExtent([{ step: 0, edges: of(3, 3), counts: of(1) }])).toEqual({
    min: 2.7,
    max: 3.3,
  });
});

test("a narrow heat map keeps the hottest cell of each pixel", () => {
  expect([...reduceRow(of(1, 9, 2, -3, NaN, 1), 3)]).toEqual([9, -3, 1]);
  expect([
    rampIndex(-5, { min: 0, max: 1 }, 11),
    rampIndex(0.5, { min: 0, max: 1 }, 11),
    rampIndex(2, { min: 0, max: 1 }, 11),
  ]).toEqual([0, 5, 10]);
  expect(rampColor(0, "sequential", false)).toBe("#f3f6fb");
});

test("stacked parts fill no more than the whole", () => {
  expect(stackShares([1, 1, 2])).toEqual([0.25, 0.25, 0.5]);
  expect(stackShares([1, NaN, -3], 4)).toEqual([0.25, 0, 0]);
  expect(stackShares([0, 0])).toEqual([0, 0]);
});

test("ridges stand inside the box, the newest at the bottom", () => {
  const bases = ridgeBases(10, { left: 0, top: 5, width: 100, height: 200 });
  expect(bases.at(-1)).toBeCloseTo(205, 9);
  expect(bases[0]).toBeGreaterThan(5);
  expect(thinned([...Array(100).keys()], 5)).toEqual([0, 25, 50, 74, 99]);
});

test("spans that share a pixel are drawn once, and a lone short one stays visible", () => {
  const x = createScale("linear", { min: 0, max: 1000 }, 0, 100);
  const spans = [0, 1, 2, 3].map((from) => ({ from, to: from + 1, label: "a", slot: 0 }));
  const found = blocks([...spans, { from: 500, to: 500.1, label: "b", slot: 1 }], x, {
    left: 0,
    top: 0,
    width: 100,
    height: 10,
  });
  expect(found.map(({ num, width }) => [num, width])).toEqual([
    [4, 1],
    [1, 1],
  ]);
});

test("whoever leaves the bus hears no more", () => {
  const bus = createSyncBus();
  const resumeAfter: (number | null)[] = [];
  const leave = bus.subscribe(({ x }) => resumeAfter.push(x));
  bus.publish({ origin: Symbol(), x: 4 });
  leave();
  bus.publish({ origin: Symbol(), x: 5 });
  expect(resumeAfter).toEqual([4]);
});
