import { expect, test } from "vitest";

import { brushBetween, brushesText, parseBrushes, passes } from "../../src/chart/brush.ts";
import type { Brush } from "../../src/chart/brush.ts";
import { hasNames, NUM_SHADES, shadeOf } from "../../src/chart/color-bar.ts";
import { drawingOrder, isKept, parallelLayout, valueText } from "../../src/chart/parallel.ts";
import { rampColor } from "../../src/chart/ramp.ts";
import { rankCorrelation, scatterLayout } from "../../src/chart/scatter.ts";
import type { ScatterOptions } from "../../src/chart/scatter.ts";
import {
  axisPixels,
  createValueAxis,
  MISSING,
  NONFINITE,
  OVER,
} from "../../src/chart/value-axis.ts";
import type { AxisValue, ValueAxis } from "../../src/chart/value-axis.ts";

const EVEN = Array.from({ length: 40 }, (_, index) => 0.01 + index * 0.01);
const BY_DECADES = Array.from({ length: 40 }, (_, index) => 10 ** (-5 + index / 10));

function axis(values: readonly AxisValue[], isMeasured = false): ValueAxis {
  return createValueAxis({ name: "x", isMeasured }, values);
}

test("numbers are on a logarithm only where they are spread like it", () => {
  expect(axis(BY_DECADES).kind).toBe("log");
  expect(axis(EVEN).kind).toBe("linear");
  expect(EVEN.at(-1)! / EVEN[0]!).toBeGreaterThan(10);
  expect(axis([0, ...BY_DECADES]).kind).toBe("linear");
  expect(axis(BY_DECADES.slice(0, 9)).kind).toBe("linear");
  expect(axis(BY_DECADES).place(10 ** (-5 + 1.95))).toBeCloseTo(0.5, 9);
});

test("names and few numbers are categories with their values as ticks", () => {
  const labels = (values: readonly AxisValue[]): string[] =>
    axis(values).ticks.map(({ label }) => label);
  expect(labels(["sgd", "adam", 3])).toEqual(["3", "adam", "sgd"]);
  expect(labels([0.1, 0, 0.1])).toEqual(["0", "0.1"]);
  expect(labels([3e-4, 1e-3, 1e-5, 3e-4])).toEqual(["1e-5", "0.0003", "0.001"]);
  expect(axis([1, 2, 3, 4, 1, 2, 3, 4]).kind).toBe("category");
  expect(axis([1, 2, 3, 4, 5]).kind).toBe("linear");
  expect(axis([1, 2, 1, 2], true).kind).toBe("linear");
});

test("what is missing, not finite or far from all others has a marked place of its own", () => {
  const losses = [2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7, 2.8, 2982];
  const found = axis([...losses, null, "nan", Infinity], true);
  expect(found.lanes.map(({ position, label }) => [position, label])).toEqual([
    [OVER, "> 2.8"],
    [NONFINITE, "nan"],
    [MISSING, "none"],
  ]);
  expect([null, "nan", Infinity, 2982, 2.8].map(found.place)).toEqual([
    MISSING,
    NONFINITE,
    NONFINITE,
    OVER,
    1,
  ]);
  expect(found.kind).toBe("linear");
  const pixels = axisPixels(found.lanes, 400, 0, 20);
  expect([0, 1, OVER, NONFINITE, MISSING].map(pixels.toPixel)).toEqual([360, 20, 0, 380, 400]);
  expect(axis(EVEN).lanes).toEqual([]);
});

test("a drag selects numbers by value, categories by name, and what has no value only where it reaches that", () => {
  const numbers = axis([...EVEN, null]);
  const pixels = axisPixels(numbers.lanes, 420, 0, 20);
  expect(brushBetween(numbers, pixels, 0, 200)).toEqual({ range: [0.205, 0.4], names: [] });
  expect(brushBetween(numbers, pixels, 415, 425)).toEqual({ range: null, names: [null] });
  const names = axis(["a", "b", "c", "d"]);
  expect(brushBetween(names, axisPixels([], 400, 0, 20), 0, 160)).toEqual({
    range: null,
    names: ["c", "d"],
  });
  expect(brushBetween(names, axisPixels([], 400, 0, 20), 90, 110)).toBeNull();
});

test("items pass where all brushes keep them", () => {
  const values: AxisValue[][] = [
    [0.1, "adam"],
    [0.2, "sgd"],
    [null, "adam"],
    ["nan", "adam"],
  ];
  const items = values.map((of, index) => ({ id: `${index}`, label: "", slot: 0, values: of }));
  const range: Brush = { range: [0.1, 0.3], names: [] };
  const kept = (brushes: Parameters<typeof isKept>[1]): string[] =>
    items.filter((item) => isKept(item, brushes)).map(({ id }) => id);
  expect(kept(new Map([[0, range]]))).toEqual(["0", "1"]);
  expect(
    kept(
      new Map([
        [0, range],
        [1, { range: null, names: ["adam"] }],
      ]),
    ),
  ).toEqual(["0"]);
  expect(kept(new Map([[0, { range: null, names: [null, "nan"] }]]))).toEqual(["2", "3"]);
  expect(passes({ range: null, names: ["3e-4"] }, 3e-4)).toBe(true);
});

test("brushes stand in the address; a broken address has none", () => {
  const brushes = new Map<string, Brush>([
    ["config:lr", { range: [0.001, 0.01] as const, names: ["nan"] }],
    ["config:opt", { range: null, names: ["adam", null] }],
  ]);
  expect(brushesText(brushes)).toBe('{"config:lr":[0.001,0.01,"nan"],"config:opt":["adam",null]}');
  expect(parseBrushes(brushesText(brushes))).toEqual(brushes);
  expect([parseBrushes(""), parseBrushes("{"), parseBrushes("3")].map(({ size }) => size)).toEqual([
    0, 0, 0,
  ]);
});

test("the best by the goal are drawn last, in the colour that stands out; those without a value first", () => {
  const losses: AxisValue[] = [3, 1, null, 2, 5, 4];
  const items = losses.map((loss, index) => ({
    id: `${index}`,
    label: "",
    slot: 0,
    values: [index, loss],
  }));
  const options = {
    label: "",
    axes: [{ name: "a" }, { name: "loss", isMeasured: true }],
    items,
    colorAxis: 1,
    brushes: new Map(),
    highlighted: null,
  };
  const drawn = (goal: "min" | "max" | null): string =>
    parallelLayout({ width: 600, height: 300 }, { ...options, goal })
      .lines.map(({ item, isBest }) => item.id + (isBest ? "!" : ""))
      .join(" ");
  expect(drawn("min")).toBe("2 4 5 0 3 1!");
  expect(drawn("max")).toBe("2 1 3 0 5 4!");
  expect(drawn(null)).toBe("2 1 3 0 5 4");
  expect(
    drawingOrder(new Array<number>(1200).fill(0), new Array<number>(1200).fill(0), true).numBest,
  ).toBe(10);
  const scale = { axis: axis([1, 2, 3, 4, 5], true), isLowBest: true };
  expect([1, 5, 1e9, null].map((value) => shadeOf(scale, value))).toEqual([
    NUM_SHADES - 1,
    0,
    0,
    null,
  ]);
  expect([
    hasNames({ axis: axis(["a", "b"]), isLowBest: false }),
    hasNames({ axis: axis([1, 2]), isLowBest: false }),
  ]).toEqual([true, false]);
});

test("colours go evenly from readable to the farthest from the page", () => {
  const lightness = (color: string): number =>
    [1, 3, 5].reduce(
      (sum, at, index) =>
        sum +
        [0.2126, 0.7152, 0.0722][index]! * (parseInt(color.slice(at, at + 2), 16) / 255) ** 2.2,
      0,
    );
  const of = (isDark: boolean): number[] =>
    Array.from({ length: 9 }, (_, index) => lightness(rampColor(index / 8, "quality", isDark)));
  expect(of(false)).toEqual([...of(false)].sort((one, other) => other - one));
  expect(of(true)).toEqual([...of(true)].sort((one, other) => one - other));
  expect(1.05 / (of(false)[0]! + 0.05)).toBeGreaterThan(2);
  expect((of(true)[0]! + 0.05) / (lightness("#16191e") + 0.05)).toBeGreaterThan(2);
});

test("Spearman's correlation is of ranks, ties and missing values included", () => {
  expect(rankCorrelation([1, 2, 3, 4], [1, 8, 27, 1e9])).toBe(1);
  expect(rankCorrelation([1, 2, 3, null, 4], [4, 3, 2, 9, 1])).toBe(-1);
  // numpy.corrcoef of the ranks [1.5, 1.5, 3, 4] and [2, 1, 3.5, 3.5]
  expect(rankCorrelation([1, 1, 2, 3], [2, 1, 3, 3])).toBeCloseTo(8 / 9, 9);
  expect(rankCorrelation([1, 1, 1], [1, 2, 3])).toBeNull();
  expect(rankCorrelation([1, "nan"], [1, 2])).toBeNull();
});

test("points of a category are spread beside each other, always in the same way", () => {
  const items = Array.from({ length: 30 }, (_, index) => ({
    id: `run${index}`,
    label: "",
    slot: index === 0 ? 3 : null,
    x: index % 2,
    y: index,
    color: null,
  }));
  const options: ScatterOptions = {
    label: "",
    items,
    x: { name: "x" },
    y: { name: "y", isMeasured: true },
    color: null,
    levels: [],
    note: "",
    highlighted: null,
  };
  const { points, xs, x } = scatterLayout({ width: 600, height: 300 }, options);
  const ofZero = points.filter(({ item }) => item.x === 0).map((point) => point.x);
  expect(new Set(ofZero.map(Math.round)).size).toBeGreaterThan(8);
  const centre = xs.toPixel(x.place(0));
  expect(Math.max(...ofZero.map((at) => Math.abs(at - centre)))).toBeLessThan(
    (xs.high - xs.low) / 4,
  );
  expect(scatterLayout({ width: 600, height: 300 }, options).points).toEqual(points);
  expect(points.at(-1)!.item.id).toBe("run0");
});

test("a setting is written as it was given, a result as metrics are", () => {
  expect([
    valueText(0.001),
    valueText(3e-4),
    valueText(1.70824, true),
    valueText("nan", true),
    valueText(null),
  ]).toEqual(["0.001", "0.0003", "1.7082", "nan", "—"]);
});
