import { expect, test } from "vitest";

import {
  band,
  columnBand,
  columnLine,
  isDense,
  traceLine,
  visible,
} from "../../src/chart/paths.ts";
import { createScale } from "../../src/chart/scale.ts";
import { pointSamples, samplesOf } from "../../src/chart/series.ts";
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
  traceLine(
    sink,
    of(0, 1, 2, 3),
    of(1, -1, 0, 10),
    xScale,
    createScale("log", { min: 1, max: 10 }, 100, 0),
  );
  expect(sink.commands()).toBe("M0 100L0 100M30 0L30 0");
});

test("a spike of one among a million points is in the band, and the line is the mean of its column", () => {
  const num = 1_000_000;
  const x = Float64Array.from({ length: num }, (_, index) => (index / num) * 10);
  const y = new Float64Array(num).fill(1);
  y[345_678] = 9;
  expect(isDense(x, xScale, 100)).toBe(true);
  const [line, area] = [svgSink(), svgSink()];
  columnLine(line, pointSamples(x, y), xScale, yScale);
  columnBand(area, pointSamples(x, y), xScale, yScale);
  expect(line.commands().split("L")).toHaveLength(100);
  expect(line.commands().replaceAll(/[ML][\d.]+ 90/g, "")).toBe("");
  expect(area.commands()).toBe("M34.5 10L34.5 90");
});

test("the mean of a column is of values, not of pixels, also on a log axis", () => {
  const sink = svgSink();
  columnLine(
    sink,
    pointSamples(of(5, 5.01, 7), of(1, 9, 5)),
    xScale,
    createScale("log", { min: 1, max: 10 }, 100, 0),
  );
  expect(sink.commands()).toBe("M50 30.1L70 30.1");
});

test("the range of a slice fills the columns from its first point to its last, also under zero on a log axis", () => {
  const data = {
    kind: "buckets",
    firstX: of(1, 5),
    lastX: of(1.25, 5),
    minX: of(1, 5),
    maxX: of(1.25, 5),
    last: 2,
    mean: of(2, 2),
    min: of(-1, 2),
    max: of(10, 2),
    count: of(9, 1),
    nonfiniteX: of(),
    nonfinite: of(),
  } as const;
  const sink = svgSink();
  columnBand(sink, samplesOf(data), xScale, createScale("log", { min: 1, max: 10 }, 100, 0));
  expect(sink.commands()).toBe("M10.5 0L10.5 100M11.5 0L11.5 100M12.5 0L12.5 100");
});

test("few points are not dense, whatever part of the axis they fill", () => {
  expect(isDense(of(0, 5, 10), xScale, 100)).toBe(false);
  expect(isDense(new Float64Array(0), xScale, 100)).toBe(false);
});

test("a column without a finite value lifts the pen", () => {
  const sink = svgSink();
  columnLine(sink, pointSamples(of(0, 1, 2, 3), of(1, NaN, 2, 3)), xScale, yScale);
  expect(sink.commands()).toBe("M0 90L0 90M20 80L30 70");
});

test("a band is closed, and a lower edge under zero reaches the bottom of a log axis", () => {
  const sink = svgSink();
  band(sink, of(0, 10), of(1, 1), of(2, 3), xScale, yScale);
  expect(sink.commands()).toBe("M0 80L100 70L100 90L0 90Z");
  const logSink = svgSink();
  band(
    logSink,
    of(0, 10),
    of(-1, 1),
    of(10, 10),
    xScale,
    createScale("log", { min: 1, max: 10 }, 100, 0),
  );
  expect(logSink.commands()).toBe("M0 0L100 0L100 100L0 100Z");
});
