import { expect, test } from "vitest";

import { logTicks, positionLabel, tickLabel, ticks, tickStep } from "../../src/chart/ticks.ts";

test("linear ticks are round, inside and without binary dust", () => {
  expect(ticks("linear", { min: 0.05, max: 0.52 }, 5, "number")).toEqual({
    at: [0.1, 0.2, 0.3, 0.4, 0.5],
    labels: ["0.1", "0.2", "0.3", "0.4", "0.5"],
  });
});

test("steps have no ticks between whole numbers", () => {
  expect(ticks("linear", { min: 0, max: 3 }, 10, "step").at).toEqual([0, 1, 2, 3]);
});

test("large and small values keep their labels short and apart", () => {
  expect(ticks("linear", { min: 0, max: 2.6e9 }, 5, "tokens").labels).toEqual([
    "0",
    "500M",
    "1B",
    "1.5B",
    "2B",
    "2.5B",
  ]);
  expect(ticks("linear", { min: 0, max: 3e-5 }, 3, "number").labels).toEqual([
    "0",
    "1e-5",
    "2e-5",
    "3e-5",
  ]);
  const close = ticks("linear", { min: 1000.01, max: 1000.05 }, 4, "number").labels;
  expect(new Set(close).size).toBe(close.length);
});

test("bytes go by powers of two", () => {
  expect(ticks("linear", { min: 0, max: 80 * 1024 ** 3 }, 5, "bytes").labels).toEqual([
    "0 B",
    "16 GiB",
    "32 GiB",
    "48 GiB",
    "64 GiB",
    "80 GiB",
  ]);
});

test("log ticks are decades, with 2 and 5 where there is room, thinned where there is none", () => {
  expect(logTicks({ min: 1, max: 1000 }, 4)).toEqual([1, 10, 100, 1000]);
  expect(logTicks({ min: 1, max: 20 }, 8)).toEqual([1, 2, 5, 10, 20]);
  expect(logTicks({ min: 1e-12, max: 1 }, 4)).toHaveLength(5);
  expect(logTicks({ min: 3.1, max: 3.9 }, 4).length).toBeGreaterThanOrEqual(2);
  expect(logTicks({ min: -1, max: 5 }, 4)).toEqual([]);
});

test("times go by minutes and hours, and say both", () => {
  expect(tickStep(50, "relative")).toBe(60);
  expect(ticks("linear", { min: 0, max: 7200 }, 4, "relative").labels).toEqual([
    "0",
    "30m",
    "1h",
    "1h 30m",
    "2h",
  ]);
  expect(tickLabel(0.25, 0.05, "relative")).toBe("250ms");
  expect(tickLabel(90061, 3600, "relative")).toBe("1d 1h");
});

test("wall clock ticks stand on local hours", () => {
  const noon = new Date(2026, 4, 3, 12, 0, 0).getTime() / 1000;
  expect(ticks("linear", { min: noon - 60, max: noon + 7300 }, 2, "wall").labels).toEqual([
    "12:00",
    "13:00",
    "14:00",
  ]);
  expect(tickLabel(new Date(2026, 4, 3).getTime() / 1000, 3600, "wall")).toBe("05-03");
});

test("a range without length gets no endless ticks", () => {
  expect(ticks("linear", { min: 5, max: 5 }, 5, "number").at).toEqual([5]);
  expect(ticks("linear", { min: 0, max: Infinity }, 5, "number").at.length).toBeLessThan(500);
});

test("positions are written in full", () => {
  expect(positionLabel(12345, "step")).toBe("step 12,345");
  expect(positionLabel(-90, "relative")).toBe("−1m 30s");
});

test("a log axis of less than a decade has ticks at round numbers, with the digits that tell them apart", () => {
  expect(ticks("log", { min: 2.4, max: 4.7 }, 5, "number").labels).toEqual([
    "2.5",
    "3",
    "3.5",
    "4",
    "4.5",
  ]);
  expect(ticks("log", { min: 1e-6, max: 1e-3 }, 4, "number").labels).toEqual([
    "1e-6",
    "1e-5",
    "0.0001",
    "0.001",
  ]);
  expect(logTicks({ min: 1.6, max: 5.2 }, 7)).toEqual([2, 2.5, 3, 3.5, 4, 4.5, 5]);
  expect(logTicks({ min: 1, max: 3000 }, 5)).toEqual([1, 10, 100, 1000]);
});
