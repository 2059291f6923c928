import { expect, test } from "vitest";

import { countTitle, valueText } from "../../src/panels/compare-groups.tsx";
import { pairOptions } from "../../src/panels/compare-importance.tsx";
import {
  columnsOf,
  crowdLines,
  curvesTable,
  dropoutMarks,
  groupLines,
} from "../../src/panels/parts/curves.ts";
import { ONE_SERIES } from "../../src/panels/parts/lines.ts";
import { groupKeys } from "../../src/state/sweep.ts";
import type { GroupCurve, GroupCurves } from "../../src/wire.ts";

const CURVE: GroupCurve = {
  label: "lr=0.001",
  values: [0.001],
  members: 3,
  missing: 0,
  at: [0, 1, 2],
  n: [3, 3, 1],
  nonfinite: [0, 0, 1],
  ended: [0, 0, 1],
  columns: {
    mean: [0.5, 0.9, 0.8],
    std: [0.1, 0.3, null],
    median: [0.4, 0.9, 0.8],
    q25: [0.3, 0.8, 0.8],
    q75: [0.6, 1, 0.8],
  },
  dropouts: [
    { run: "a", name: "one", at: 1, why: "ended", state: "crashed" },
    { run: "b", name: "two", at: 2, why: "nonfinite", state: "finished" },
  ],
  runs: ["a", "b", "c"],
};
const CURVES: GroupCurves = {
  metric: "acc",
  x: "step",
  keys: ["lr"],
  groups: 1,
  lowest: 0,
  highest: 1,
  curves: [CURVE],
  unfinished: { runs: [], are_included: true, sentence: "" },
};

test("a group is a line with a band that stays within possible values", () => {
  const [line] = groupLines(CURVES, "mean", "std", () => 4, ONE_SERIES);
  expect([...line!.spread!.high]).toEqual([0.6, 1, NaN]);
  expect(line!.spread!.low[1]).toBeCloseTo(0.6);
  expect([line!.slot, line!.label]).toEqual([4, "lr=0.001 · mean ± std, 3 runs"]);
});

test("a line says how many members it is of at a step", () => {
  const [line] = groupLines(CURVES, "mean", "line", () => 0, ONE_SERIES);
  expect([line!.noteOf!(0), line!.noteOf!(2)]).toEqual(["", "1 of 3"]);
  expect(line!.spread).toBeUndefined();
});

test("a median has quartiles as they are", () => {
  expect(columnsOf("median", "iqr")).toEqual(["median", "q25", "q75"]);
  const [line] = groupLines(CURVES, "median", "iqr", () => 0, ONE_SERIES);
  expect([...line!.spread!.low]).toEqual([0.3, 0.8, 0.8]);
});

test("members that leave are crosses on the line of their group", () => {
  const marks = dropoutMarks(CURVES, "mean", () => 2);
  expect(marks.map(({ x, label }) => [x, label])).toEqual([
    [1, "one ends here (crashed): 2 of 3 remain"],
    [2, "two is nan from here on: 1 of 3 remain"],
  ]);
  expect(marks[0]!.on).toEqual({ y: 0.9, slot: 2 });
});

test("keys of groups are read from the address", () => {
  expect(groupKeys("lr,model")).toEqual({ by: ["lr", "model"] });
  expect(groupKeys("-seed")).toEqual({ all_but: ["seed"] });
  expect(groupKeys(null)).toEqual({});
});

test("a count says why members do not count", () => {
  const row = { n: 3, nonfinite: 1, unfinished: 0, missing: 2 } as Parameters<typeof countTitle>[0];
  expect(countTitle(row)).toBe("3 count; 1 ended as nan or infinity; 2 never logged it");
  expect([valueText(null), valueText(1e-4), valueText(true)]).toEqual(["none", "0.0001", "true"]);
});

test("a heat map has the pair's means, and tells how many runs they are of", () => {
  const pair = {
    keys: ["lr", "wd"] as [string, string],
    rows: ["1", "2"],
    columns: ["0", "1"],
    mean: [
      [1, 2],
      [null, 3],
    ],
    n: [
      [4, 4],
      [0, 3],
    ],
    nonfinite: [
      [0, 0],
      [2, 1],
    ],
  };
  const options = pairOptions("loss", pair);
  expect([...options.values]).toEqual([1, 2, NaN, 3]);
  expect(options.rowNote!(1, 1)).toBe("3 runs, and 1 that ended as nan");
  expect(options.range).toEqual({ min: 1, max: 3 });
});

test("cells without runs are empty, and cells of the same mean tell their own numbers of runs", () => {
  const pair = {
    keys: ["lr", "wd"] as [string, string],
    rows: ["1", "2"],
    columns: ["0", "1"],
    mean: [
      [2, 2],
      [null, null],
    ],
    n: [
      [4, 1],
      [0, 0],
    ],
    nonfinite: [
      [0, 0],
      [0, 3],
    ],
  };
  const options = pairOptions("loss", pair);
  expect([...options.values]).toEqual([2, 2, -Infinity, NaN]);
  expect([0, 1].map((column) => options.rowNote!(0, column))).toEqual(["4 runs", "1 run"]);
  expect([...options.values.subarray(2)].map(options.format!)).toEqual([
    "no runs",
    "no finite value",
  ]);
});

test("a chart of groups downloads the numbers of every step", () => {
  const [head, first, , last] = curvesTable([CURVES]).split("\r\n");
  expect(head).toBe("metric,lr,step,members,missing,n,nonfinite,ended,mean,std,median,q25,q75");
  expect(first).toBe("acc,0.001,0,3,0,3,0,0,0.5,0.1,0.4,0.3,0.6");
  expect(last).toBe("acc,0.001,2,3,0,1,1,1,0.8,,0.8,0.8,0.8");
});

test("hundreds of runs are one line with two bands, and each place says how many runs it is of", () => {
  const columns = { median: [2, 3], q25: [1, 2], q75: [3, 4], min: [0, null], max: [9, 10] };
  const found = {
    x: "step",
    curves: [{ label: "", members: 1200, at: [0, 10], n: [1200, 900], columns }],
  } as unknown as GroupCurves;
  const [line] = crowdLines(found, ONE_SERIES);
  expect(line!.label).toBe("median of 1,200 runs");
  expect([...line!.spread!.low]).toEqual([1, 2]);
  expect([...line!.spread!.outer!.high]).toEqual([9, 10]);
  expect(line!.spread!.outer!.low[1]).toBeNaN();
  expect(line!.noteOf!(1)).toBe("900 of 1,200");
});
