/** Which lines are left out of the y range because they would flatten the others. */

import { expect, test } from "vitest";

import { clipRuns } from "../../../src/chart/line/outliers.ts";
import type { Values } from "../../../src/chart/line/outliers.ts";

const line = (id: string, ...values: number[]): Values => ({
  id,
  label: id,
  parts: [Float64Array.from(values)],
});

const FALLS = line("falls", 4, 3, 2);
const EXPLODES = line("explodes", 4, 3, 1200, NaN);

test("a run that explodes is clipped where it would flatten the other", () => {
  expect(clipRuns([EXPLODES, FALLS], null)).toEqual({
    range: { min: 2, max: 4 },
    beyond: ["explodes"],
  });
});

test("a run by itself and runs of one size keep their whole range", () => {
  expect(clipRuns([EXPLODES], null)).toBeNull();
  expect(clipRuns([FALLS, line("higher", 40, 30, 20)], null)).toBeNull();
  expect(clipRuns([EXPLODES, line("too", 4, 900)], null)).toBeNull();
});

test("what a clipped run does near the others stays in the range", () => {
  expect(clipRuns([line("spike", 4, 1.5, 500, 1.5), FALLS], null)!.range).toEqual({
    min: 1.5,
    max: 4,
  });
});

test("a long run with one spike keeps all the rest of its course", () => {
  const long = line(
    "long",
    ...Array.from({ length: 500 }, (_, index) => (index === 300 ? 1000 : 9 - index / 60)),
  );
  const { range, beyond } = clipRuns([long, FALLS, line("also", 4, 3)], null)!;
  expect(beyond).toEqual(["long"]);
  expect(range.min).toBeLessThan(1);
  expect(range.max).toBeGreaterThan(8.8);
  expect(range.max).toBeLessThan(20);
});

test("runs far apart that never meet are both shown", () => {
  expect(clipRuns([line("small", 2, 2.1), line("large", 1000, 1001)], null)).toBeNull();
  expect(clipRuns([line("a", 2, 2.01), line("b", 2.02, 2), line("c", 5, 5.01)], null)).toBeNull();
});

test("a run that is far beyond most others from its first step is clipped, unless it is the chosen one", () => {
  const lines = [FALLS, line("also", 4, 2), line("lost", 1200, 1300)];
  expect(clipRuns(lines, null)!.beyond).toEqual(["lost"]);
  expect(clipRuns(lines, "lost")).toBeNull();
});

test("half of the runs may be clipped, more may not", () => {
  const bad = ["a", "b", "c"].map((id) => line(id, 4, 1000));
  expect(clipRuns([FALLS, line("also", 4, 2), bad[0]!, bad[1]!], null)!.beyond).toEqual(["a", "b"]);
  expect(clipRuns([FALLS, ...bad], null)).toBeNull();
});

test("values that do not move have nothing to be flattened", () => {
  expect(clipRuns([line("none", 0, 0), line("no", 0, 0), line("some", 0, 5)], null)).toBeNull();
});
