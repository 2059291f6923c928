import { expect, test } from "vitest";

import { band, columnBand, columnLine, columns, isDense, traceLine, visible } from "../../src/chart/paths.ts";
import { createScale } from "../../src/chart/scale.ts";
import { svgSink } from "../../src/chart/svg.ts";

const of = (...values: number[]): Float64Array => Float64Array.from(values);
const xScale = createScale("linear", { min: 0, max: 10 }, 0, 100);
const yScale = createScale("linear", { min: 0, max: 10 }, 100, 0);

test("a line goes through its points and lifts the pen at a gap", () => {
  const sink = svgSink();
  traceLine(sink, of(0, 1, 2, 3, 4), of(0, 1, NaN, 3, 4), xScale, yScale);
  expect(sink.commands()).toBe("M0 100L10 90M30 70L40 60");
});

test("a lone point becomes a dot", () => {
  const sink = svgSink();
  traceLine(sink, of(5), of(5), xScale, yScale);
  expect(sink.commands()).toBe("M50 50L50 50");
});

test("points outside the view are left out, but for the next one on each side", () => {
  const x = of(-30, -20, 1, 2, 12, 30);
  expect(visible(x, xScale)).toEqual([1, 5]);
  expect(visible(of(0, 10), xScale)).toEqual([0, 2]);
});

test("on a log axis values of zero and below break the line", () => {
  const sink = svgSink();
  traceLine(sink, of(0, 1, 2, 3), of(1, -1, 0, 10), xScale, createScale("log", { min: 1, max: 10 }, 100, 0));
  expect(sink.commands()).toBe("M0 100L0 100M30 0L30 0");
});

test("a spike of one among a million points is in the band", () => {
  const num = 1_000_000;
  const x = Float64Array.from({ length: num }, (_, index) => (index / num) * 10);
  const y = new Float64Array(num).fill(1);
  y[345_678] = 9;
  expect(isDense(x, xScale, 100)).toBe(true);
  const [stretch] = columns(x, y, xScale, yScale);
  expect(stretch!.x.length).toBeLessThanOrEqual(101);
  expect(Math.min(...stretch!.top)).toBeCloseTo(10, 6);
  const [line, area] = [svgSink(), svgSink()];
  columnLine(line, [stretch!]);
  columnBand(area, [stretch!]);
  expect(line.commands()).not.toContain(" 10L");
  expect(area.commands()).toBe("M34.5 10L34.5 90");
});

test("few points are not dense, whatever part of the axis they fill", () => {
  expect(isDense(of(0, 5, 10), xScale, 100)).toBe(false);
  expect(isDense(new Float64Array(0), xScale, 100)).toBe(false);
});

test("a gap splits columns into stretches", () => {
  expect(columns(of(0, 1, 2, 3), of(1, NaN, 2, 3), xScale, yScale)).toHaveLength(2);
});

test("a band is closed, and a lower edge under zero reaches the bottom of a log axis", () => {
  const sink = svgSink();
  band(sink, of(0, 10), of(1, 1), of(2, 3), xScale, yScale);
  expect(sink.commands()).toBe("M0 80L100 70L100 90L0 90Z");
  const logSink = svgSink();
  band(logSink, of(0, 10), of(-1, 1), of(10, 10), xScale, createScale("log", { min: 1, max: 10 }, 100, 0));
  expect(logSink.commands()).toBe("M0 0L100 0L100 100L0 100Z");
});
