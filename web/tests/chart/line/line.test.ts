/** What a line chart computes before it draws. */

import { expect, test } from "vitest";

import { lineSvg } from "../../../src/chart/line/exports.ts";
import { neighbour } from "../../../src/chart/line/input.ts";
import { nextSolo } from "../../../src/chart/line/legend.ts";
import { isDimmed, LINE_DEFAULTS, NO_EMPHASIS } from "../../../src/chart/line/options.ts";
import type { LineOptions } from "../../../src/chart/line/options.ts";
import { extentX, extentY } from "../../../src/chart/line/range.ts";
import { readAt, readoutContent } from "../../../src/chart/line/readout.ts";
import type { LineDrawing } from "../../../src/chart/line/drawing.ts";
import { createScale } from "../../../src/chart/scale.ts";
import { prepare } from "../../../src/chart/series.ts";
import type { Trace } from "../../../src/chart/series.ts";
import type { ChartTheme } from "../../../src/chart/theme.ts";

const of = (...values: number[]): Float64Array => Float64Array.from(values);
const ALL = {
  kind: "linear",
  outliers: "show",
  chosen: null,
  always: [],
  limits: { min: null, max: null },
} as const;
const THEME: ChartTheme = {
  isDark: false,
  ink: "#000",
  muted: "#555",
  grid: "#eee",
  line: "#ddd",
  surface: "#fff",
  accent: "#00f",
  good: "#080",
  warning: "#850",
  critical: "#c00",
};

function raw(id: string, x: Float64Array, y: Float64Array): Trace {
  return prepare({ id, label: id, slot: 0, data: { kind: "raw", x, y } });
}

function sceneOf(traces: readonly Trace[], options: Partial<LineOptions> = {}): LineDrawing {
  const box = { left: 0, top: 0, width: 100, height: 100 };
  return {
    box,
    traces,
    emphasis: NO_EMPHASIS,
    numHidden: 0,
    beyond: [],
    options: { ...LINE_DEFAULTS, ...options },
    x: createScale("linear", { min: 0, max: 10 }, 0, 100),
    y: createScale("linear", { min: 0, max: 10 }, 100, 0),
  };
}

const A = raw("a", of(0, 5, 10), of(1, 2, 3));
const LATE = raw("late", of(8, 10), of(6, 4));

test("bands of runs that diverge do not flatten the others, and the points beyond are counted", () => {
  const x = of(0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
  const same = (value: number): Float64Array => new Float64Array(10).fill(value);
  const spread = (highest: number) => ({
    low: same(1),
    high: same(3),
    outer: { low: same(0), high: same(highest) },
  });
  const crowd = (highest: number): Trace =>
    prepare({
      id: "crowd",
      label: "crowd",
      slot: 0,
      data: { kind: "raw", x, y: same(2) },
      spread: spread(highest),
    });
  const shown = (highest: number) =>
    extentY([crowd(highest)], { min: 0, max: 9 }, { ...ALL, outliers: "clip" });
  expect(shown(2000).range.max).toBeLessThan(6);
  expect(shown(2000).numHidden).toBe(10);
  expect(shown(6).range.max).toBeGreaterThan(6);
});

test("the x axis runs from the earliest start to the latest end, points that are not finite included", () => {
  expect(extentX([A, raw("b", of(20, 30), of(1, NaN))], "linear")).toEqual({ min: 0, max: 30 });
  expect(extentX([], "linear")).toEqual({ min: 0, max: 1 });
  expect(extentX([A], "log")).toEqual({ min: 5, max: 10 });
});

test("the y axis fits the points in view and does not go below zero for what is never negative", () => {
  expect(extentY([A], { min: 4, max: 11 }, ALL).range.max).toBeCloseTo(3.06, 6);
  expect(extentY([raw("b", of(0, 1), of(0, 1))], { min: 0, max: 1 }, ALL).range.min).toBe(0);
  expect(extentY([A], { min: 0, max: 10 }, { ...ALL, always: [80] }).range.max).toBeGreaterThan(80);
});

test("limits by hand replace one end of the y axis or both, and what lies beyond is counted", () => {
  const limited = (min: number | null, max: number | null, kind: "linear" | "log" = "linear") =>
    extentY([A], { min: 0, max: 10 }, { ...ALL, kind, limits: { min, max } });
  expect(limited(0, 2.5)).toMatchObject({ range: { min: 0, max: 2.5 }, numHidden: 1 });
  expect(limited(null, 50).range.max).toBe(50);
  expect(limited(9, null).range).toEqual({ min: 9, max: 18 });
  expect(limited(0, null, "log").range.min).toBeGreaterThan(0);
});

test("points that the y axis cannot show are counted", () => {
  const trace = raw("b", of(0, 1, 2, 3), of(-1, 0, 1, 10));
  expect(extentY([trace], { min: 0, max: 3 }, { ...ALL, kind: "log" }).numHidden).toBe(2);
  const spiked = raw(
    "c",
    Float64Array.from({ length: 200 }, (_, i) => i),
    Float64Array.from({ length: 200 }, (_, i) => (i === 9 ? 1e6 : 1 + i / 200)),
  );
  expect(extentY([spiked], { min: 0, max: 200 }, { ...ALL, outliers: "clip" }).numHidden).toBe(1);
});

test("a readout is sorted by value and marks the nearest to the pointer", () => {
  const readout = readAt(sceneOf([A, LATE]), 9.8, 68)!;
  expect(readout.x).toBe(10);
  expect(readout.readings.map(({ trace, value }) => [trace.id, value])).toEqual([
    ["late", 4],
    ["a", 3],
  ]);
  expect(readout.nearest!.trace.id).toBe("a");
});

test("a series that has not begun is not read", () => {
  expect(readAt(sceneOf([A, LATE]), 1, null)!.readings.map(({ trace }) => trace.id)).toEqual(["a"]);
  expect(readAt(sceneOf([]), 1, null)).toBeNull();
});

test("a value that is not finite is read as such, and comes last", () => {
  const broken = raw("b", of(0, 5, 10), of(1, NaN, 1));
  const readout = readAt(sceneOf([broken, A]), 5, null)!;
  expect(readout.readings.map(({ value }) => value)).toEqual([2, NaN]);
  expect(readoutContent(readout, sceneOf([broken, A])).rows[1]!.value).toBe("nan");
});

test("values are compared with the baseline", () => {
  const drawing = sceneOf([A, LATE], { baseline: "a" });
  const { rows } = readoutContent(readAt(drawing, 10, null)!, drawing);
  expect(rows.map(({ note }) => note)).toEqual(["+33.3\u00a0%", "baseline"]);
});

const SLICES = {
  kind: "buckets",
  firstX: of(0, 5),
  lastX: of(4, 9),
  minX: of(0, 5),
  maxX: of(3, 8),
  last: 3,
  mean: of(2.3, 3.1),
  min: of(1, 3),
  max: of(8, 4),
  count: of(334, 300),
  nonfiniteX: of(3),
  nonfinite: of(NaN),
} as const;

test("a column of several points is read as its mean and range, and says how many and where", () => {
  const sliced = prepare({
    id: "a",
    label: "a",
    slot: 0,
    data: { ...SLICES, nonfiniteX: of(), nonfinite: of() },
  });
  const drawing = sceneOf([sliced, LATE]);
  const content = readoutContent(readAt(drawing, 2, 50)!, drawing);
  expect(content).toMatchObject({
    title: "step 0 – 4",
    rows: [{ value: "2.3000", note: "1.0000 – 8.0000" }],
    foot: "mean and range of 334 points · max\u00a08.0000\u00a0at\u00a0step\u00a03 · min\u00a01.0000\u00a0at\u00a0step\u00a00",
  });
  const both = readoutContent(readAt(drawing, 7.2, 50)!, drawing);
  expect(both).toMatchObject({
    title: "step 5 – 9",
    rows: [
      { value: "6.0000", note: "@ 8" },
      { value: "3.1000", note: "3.0000 – 4.0000" },
    ],
    foot: "mean and range of 300 points",
  });
});

test("points that share a pixel column with the pointer are read together, by the arrow keys one by one", () => {
  const close = raw("a", of(5, 5.02, 5.04, 8), of(2, 50, 2, 1));
  const drawing = sceneOf([close]);
  expect(readAt(drawing, 5, 50)!.readings[0]).toMatchObject({
    value: 18,
    column: { min: 2, max: 50, points: 3, from: 5, to: 5.04 },
  });
  expect(readAt(drawing, 5.02, null)!.readings[0]).toMatchObject({ value: 50, column: null });
});

test("a smoothed value is called so, beside the range of its column", () => {
  const drawing = sceneOf([
    prepare({ id: "a", label: "a", slot: 0, data: SLICES, smoothed: of(2.5, 2.9) }),
    A,
  ]);
  expect(readoutContent(readAt(drawing, 7, 50)!, drawing)).toMatchObject({
    title: "step 5 – 9",
    rows: [{ value: "2.9000", note: "3.0000 – 4.0000" }, {}],
    foot: "smoothed · range of 300 points · max\u00a04.0000\u00a0at\u00a0step\u00a08 · min\u00a03.0000\u00a0at\u00a0step\u00a05",
  });
});

test("a column with a point that is not finite says where it is", () => {
  const drawing = sceneOf([prepare({ id: "a", label: "a", slot: 0, data: SLICES })]);
  expect(readoutContent(readAt(drawing, 1.5, 50)!, drawing).rows[0]!.note).toBe(
    "1.0000 – 8.0000, nan at 3",
  );
  expect(readoutContent(readAt(drawing, 3, 50)!, drawing).rows[0]!.value).toBe("nan");
});

test("the y axis holds the range of every slice, and the x axis its ends", () => {
  const sliced = prepare({ id: "a", label: "a", slot: 0, data: SLICES });
  expect(extentX([sliced], "linear")).toEqual({ min: 0, max: 9 });
  expect(extentY([sliced], { min: 0, max: 4 }, ALL).range.max).toBeGreaterThan(8);
  expect(extentY([sliced], { min: 5, max: 9 }, ALL).range.max).toBeLessThan(5);
  expect(
    extentY([sliced], { min: 0, max: 9 }, { ...ALL, limits: { min: 2, max: 3.5 } }).numHidden,
  ).toBe(2);
});

test("long lists have the best lines and those nearest to the pointer, and say how many are left", () => {
  const many = Array.from({ length: 40 }, (_, index) =>
    raw(`r${index}`, of(0, 10), of(index / 4, index / 4)),
  );
  const drawing = sceneOf(many, { goal: "min" });
  const { rows } = readoutContent(readAt(drawing, 10, 50)!, drawing);
  expect(rows.map(({ label }) => label)).toEqual([
    "r0",
    "r1",
    "r2",
    "r3",
    "… 11 more",
    ...Array.from({ length: 10 }, (_, index) => `r${15 + index}`),
    "… 15 more",
  ]);
  expect(rows.find(({ isNearest }) => isNearest)!.label).toBe("r20");
  const largest = sceneOf(many, { goal: "max" });
  expect(readoutContent(readAt(largest, 10, null)!, largest).rows[0]!.label).toBe("r39");
});

test("a click in the legend shows one alone, a second click all; with shift it adds", () => {
  expect([...nextSolo(new Set(), "a", false)]).toEqual(["a"]);
  expect([...nextSolo(new Set(["a"]), "a", false)]).toEqual([]);
  expect([...nextSolo(new Set(["a"]), "b", true)]).toEqual(["a", "b"]);
  const line = { id: "b\nloss", owner: "b", subject: "loss" };
  expect(isDimmed(line, { solo: new Set(["a"]), hovered: null })).toBe(true);
  expect(isDimmed(line, { solo: new Set(["a"]), hovered: "b" })).toBe(false);
});

test("arrow keys go to the next logged x of any series", () => {
  const drawing = sceneOf([A, LATE]);
  expect([
    neighbour(drawing, 5, 1),
    neighbour(drawing, 8, -1),
    neighbour(drawing, 10, 1),
    neighbour(drawing, null, -1),
  ]).toEqual([8, 5, null, 0]);
});

test("SVG has vector lines, and text that cannot break out", () => {
  const svg = lineSvg(
    sceneOf([raw('<script>&"', of(0, 5, 10), of(1, 2, 3))], { title: "</text><script>" }),
    { width: 400, height: 200 },
    THEME,
  );
  expect(svg).toMatch(/<path d="M[\d. ]+L[\d. ]+L[\d. ]+" fill="none" stroke="#3d68ca"/);
  expect(svg).not.toContain("<script");
  expect(svg).toContain("&lt;script&gt;&amp;&quot;");
});
