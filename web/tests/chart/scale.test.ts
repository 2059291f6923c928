import { expect, test } from "vitest";

import { createScale, moveRange, padRange } from "../../src/chart/scale.ts";

test.each(["linear", "log"] as const)("a %s scale maps its ends, and back", (kind) => {
  const scale = createScale(kind, { min: 1, max: 1000 }, 300, 0);
  expect([scale.toPixel(1), scale.toPixel(1000)]).toEqual([300, 0]);
  for (const value of [1, 3, 31.6, 500, 1000])
    expect(scale.toValue(scale.toPixel(value))).toBeCloseTo(value, 8);
});

test("a log scale gives decades equal room, and no place to zero", () => {
  const scale = createScale("log", { min: 1, max: 1000 }, 0, 300);
  expect(scale.toPixel(10)).toBeCloseTo(100, 9);
  expect(Number.isFinite(scale.toPixel(0))).toBe(false);
  expect(Number.isFinite(scale.toPixel(-1))).toBe(false);
});

test("a range of one point becomes an interval around it", () => {
  expect(padRange("linear", { min: 5, max: 5 }, 0.1)).toEqual({ min: 4.5, max: 5.5 });
  expect(padRange("linear", { min: 0, max: 0 }, 0.1)).toEqual({ min: -1, max: 1 });
  const log = padRange("log", { min: 10, max: 10 }, 0.1);
  expect(log.min).toBeLessThan(10);
  expect(log.max).toBeGreaterThan(10);
});

test("zooming keeps the anchor in place, shifting keeps the length", () => {
  const zoomed = moveRange("linear", { min: 0, max: 100 }, { zoom: 0.5, anchor: 0.25 });
  expect(zoomed).toEqual({ min: 12.5, max: 62.5 });
  expect(moveRange("linear", { min: 0, max: 100 }, { shift: 0.2 })).toEqual({ min: 20, max: 120 });
});
