import { expect, test } from "vitest";

import {
  formatBytes,
  formatCount,
  formatDelta,
  formatDuration,
  formatNumber,
  formatPercent,
  formatWhole,
} from "../../src/chart/format.ts";
import vectors from "./vectors.json" with { type: "json" };

type Cases = readonly (readonly [number, string])[];

test.each([
  ["number", formatNumber],
  ["duration", formatDuration],
  ["bytes", formatBytes],
  ["count", formatCount],
] as const)("%s is written as the recording side writes it", (name, write) => {
  for (const [value, text] of vectors[name] as unknown as Cases)
    expect([value, write(value)]).toEqual([value, text]);
});

test("values that are not finite are named", () => {
  expect([NaN, Infinity, -Infinity].map(formatNumber)).toEqual(["nan", "inf", "-inf"]);
  expect([formatDuration(NaN), formatBytes(Infinity), formatCount(NaN)]).toEqual(["—", "—", "—"]);
});

test("a delta is signed, and unknown against zero", () => {
  expect([formatDelta(2.2, 2), formatDelta(1.5, 2), formatDelta(2, 2), formatDelta(1, 0)]).toEqual([
    "+10.0\u00a0%",
    "−25.0\u00a0%",
    "±0\u00a0%",
    "—",
  ]);
  expect(formatDelta(-1, -2)).toBe("+50.0\u00a0%");
});

test("whole numbers are grouped, shares are percentages", () => {
  expect(formatWhole(12345678)).toBe("12,345,678");
  expect(formatWhole(0.25)).toBe("0.25");
  expect(formatPercent(0.4213)).toBe("42.1\u00a0%");
});
