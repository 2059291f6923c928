import { expect, test } from "vitest";

import { createGrid, fillGrid } from "../../../src/chart/line/fast-raster.ts";
import { NO_EMPHASIS } from "../../../src/chart/line/options.ts";
import type { LineDrawing } from "../../../src/chart/line/drawing.ts";
import { createScale } from "../../../src/chart/scale.ts";
import { prepare } from "../../../src/chart/series.ts";
import type { SeriesData } from "../../../src/chart/series.ts";
import type { ChartTheme } from "../../../src/chart/theme.ts";

const SIZE = 8;

/** Rows of a picture of one line, `#` where it runs; x and y both go from 0 to 8. */
function picture(x: number[], y: number[]): string[] {
  return pictureOf({ kind: "raw", x: Float64Array.from(x), y: Float64Array.from(y) });
}

function pictureOf(data: SeriesData): string[] {
  const trace = prepare({ id: "a", label: "a", slot: 0, data });
  const drawing = {
    box: { left: 30, top: 10, width: SIZE, height: SIZE },
    x: createScale("linear", { min: 0, max: SIZE }, 30, 30 + SIZE),
    y: createScale("linear", { min: 0, max: SIZE }, 10 + SIZE, 10),
    traces: [trace], smoothed: new Map(), emphasis: NO_EMPHASIS,
  } as unknown as LineDrawing;
  const grid = createGrid(SIZE, SIZE);
  fillGrid(grid, drawing, 1, { isDark: false } as ChartTheme);
  return Array.from({ length: SIZE }, (_, row) => Array.from(grid.pixels.subarray(row * SIZE, (row + 1) * SIZE), (pixel) => (pixel === 0 ? "." : "#")).join(""));
}

test("a line goes through every column between its points", () => {
  expect(picture([0, 8], [8, 0])).toEqual(["#.......", "##......", ".##.....", "..##....", "...##...", "....##..", ".....##.", "......##"]);
});

test("many points in one column cover it from the smallest to the largest", () => {
  expect(picture([4.1, 4.2, 4.3, 4.4], [2.5, 6.5, 3.5, 4.5])).toEqual(["........", "....#...", "....#...", "....#...", "....#...", "....#...", "........", "........"]);
});

test("a slice covers its range from its first point to its last", () => {
  const [value, none] = [Float64Array.of(2.5), new Float64Array(0)];
  const data: SeriesData = { kind: "buckets", firstX: Float64Array.of(2.5), lastX: Float64Array.of(4.5), last: value, mean: value, min: value, max: Float64Array.of(5.5), count: Float64Array.of(9), nonfiniteX: none, nonfinite: none };
  expect(pictureOf(data)).toEqual(["........", "........", "..###...", "..###...", "..###...", "..###...", "........", "........"]);
});

test("a nan breaks the line, and a lone point is seen", () => {
  expect(picture([0.5, 1.5, 2.5], [3.5, NaN, 3.5])[4]).toBe("#.#.....");
});

test("what lies outside is cut off, not bent", () => {
  expect(picture([-4, 12], [12, -4])).toEqual(picture([0, 8], [8, 0]));
});
