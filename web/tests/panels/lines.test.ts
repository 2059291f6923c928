import { expect, test } from "vitest";

import { seriesTable } from "../../src/panels/parts/exact-csv.ts";
import { formatOf, linesOf } from "../../src/panels/parts/lines.ts";
import type { Cell } from "../../src/panels/parts/lines.ts";
import type { SeriesPart } from "../../src/source/source.ts";
import type { SeriesHead } from "../../src/wire.ts";

function part(run: string, y: number[], rank = 0, name = "loss"): SeriesPart {
  const x = Float64Array.from(y, (_, index) => index);
  const head = { run, rank, name, x: "step" } as SeriesHead;
  return {
    head,
    data: { kind: "raw", x, y: Float64Array.from(y) },
    times: x.map((at) => 100 + at),
  };
}

const NAMES = {
  label: (run: string) => run.toUpperCase(),
  slot: (run: string) => run.charCodeAt(0) - 97,
  spread: "minmax" as const,
  names: ["loss"],
  isOneRun: false,
};

function cell(run: string, ...parts: SeriesPart[]): Cell {
  return { run, name: parts[0]!.head.name, parts };
}

test("each run is a line in its own colour", () => {
  const cells = [cell("a", part("a", [1])), cell("c", part("c", [2]))];
  expect(
    linesOf({ ...NAMES, cells, groups: null }).map(({ id, label, slot }) => [id, label, slot]),
  ).toEqual([
    ["a", "A", 0],
    ["c", "C", 2],
  ]);
});

test("several series of one run have a colour each; of several runs a dash each", () => {
  const names = ["train", "eval"];
  const cells = ["a", "c"].flatMap((run) =>
    names.map((name) => cell(run, part(run, [1], 0, name))),
  );
  const alone = linesOf({
    ...NAMES,
    names,
    isOneRun: true,
    cells: cells.slice(0, 2),
    groups: null,
  });
  expect(alone.map(({ label, slot, dash }) => [label, slot, dash])).toEqual([
    ["train", 0, undefined],
    ["eval", 1, undefined],
  ]);
  const both = linesOf({ ...NAMES, names, cells, groups: null });
  expect(both.map(({ label, slot, owner }) => [label, slot, owner])).toEqual([
    ["A · train", 0, "a"],
    ["A · eval", 0, "a"],
    ["C · train", 2, "c"],
    ["C · eval", 2, "c"],
  ]);
  expect(both.map(({ dash }) => dash!.length > 0)).toEqual([false, true, false, true]);
  const grouped = linesOf({
    ...NAMES,
    names,
    cells,
    groups: [
      { title: "lr = 1", runs: ["a"] },
      { title: "lr = 2", runs: ["c"] },
    ],
  });
  expect(grouped.map(({ label }) => label)).toEqual([
    "lr = 1 · train · mean with min and max, 1 run",
    "lr = 1 · eval · mean with min and max, 1 run",
    "lr = 2 · train · mean with min and max, 1 run",
    "lr = 2 · eval · mean with min and max, 1 run",
  ]);
});

test("ranks are told apart", () => {
  const cells = [cell("a", part("a", [1]), part("a", [2], 1))];
  expect(linesOf({ ...NAMES, cells, groups: null }).map(({ id, label }) => [id, label])).toEqual([
    ["a", "A rank 0"],
    ["a#1", "A rank 1"],
  ]);
});

test("the mean of ranks lies in the range that all of them cover, slices included", () => {
  const slices = {
    kind: "buckets",
    firstX: Float64Array.of(0, 1),
    lastX: Float64Array.of(0, 1),
    minX: Float64Array.of(0, 1),
    maxX: Float64Array.of(0, 1),
    last: 6,
    mean: Float64Array.of(3, 5),
    min: Float64Array.of(0, 5),
    max: Float64Array.of(3, 9),
    count: Float64Array.of(2, 2),
    nonfiniteX: new Float64Array(0),
    nonfinite: new Float64Array(0),
  } as const;
  const cells = [cell("a", part("a", [1, 1]), { ...part("a", [], 1), data: slices })];
  const [line, ...others] = linesOf({ ...NAMES, cells, groups: null, ranks: "mean" });
  expect(others).toEqual([]);
  expect(line).toMatchObject({
    id: "a",
    label: "A · mean of 2 ranks",
    slot: 0,
    data: { y: Float64Array.of(2, 3) },
    spread: { low: Float64Array.of(0, 1), high: Float64Array.of(3, 9) },
  });
});

test("a table of slices names what each column is", () => {
  const of = (...values: number[]): Float64Array => Float64Array.from(values);
  const slices = {
    kind: "buckets",
    firstX: of(0, 10),
    lastX: of(9, 19),
    minX: of(4, 12),
    maxX: of(8, 19),
    last: 3,
    mean: of(1.5, 2.5),
    min: of(1, 2),
    max: of(50, 3),
    count: of(10, 10),
    nonfiniteX: of(),
    nonfinite: of(),
  } as const;
  expect(
    seriesTable([{ ...part("a", []), data: slices }], (run) => run)
      .split("\r\n")
      .slice(0, 2),
  ).toEqual([
    "run,id,rank,metric,axis,x,last_x,mean,min,min_x,max,max_x,points,bucket",
    "a,a,0,loss,step,0,9,1.5,1,4,50,8,10,1 bucket = 10 steps",
  ]);
});

test("a group is one line with its spread", () => {
  const cells = [cell("a", part("a", [1, 2])), cell("b", part("b", [3, 6]))];
  const [line] = linesOf({ ...NAMES, cells, groups: [{ title: "lr = 1", runs: ["a", "b"] }] });
  expect(line).toMatchObject({
    label: "lr = 1 · mean with min and max, 2 runs",
    data: { y: Float64Array.of(2, 4) },
    spread: { low: Float64Array.of(1, 2), high: Float64Array.of(3, 6) },
  });
});

test("the line of a group ends where fewer than half of its members remain", () => {
  const cells = ["a", "b", "c", "d"].map((run, index) =>
    cell(
      run,
      part(
        run,
        Array.from({ length: 2 + 2 * index }, () => index),
      ),
    ),
  );
  const [line] = linesOf({
    ...NAMES,
    cells,
    groups: [{ title: "lr = 1", runs: ["a", "b", "c", "d"] }],
  });
  expect(line).toMatchObject({
    data: { x: Float64Array.of(0, 1, 2, 3, 4, 5), y: Float64Array.of(1.5, 1.5, 2, 2, 2.5, 2.5) },
  });
  expect(line!.spread!.low.length).toBe(6);
});

test.each([
  ["x", "bytes", "bytes"],
  ["x", "s", "duration"],
  ["x", "%", "number"],
  ["gpu/0/dram_used", null, "bytes"],
  ["memory/weights/device", null, "bytes"],
  ["resources/vram_allocated_bytes", null, "bytes"],
  ["epoch/duration_s", null, "duration"],
  ["train/loss", null, "number"],
  ["train/duration_ms", null, "number"],
] as const)("%s in %s is written as %s", (name, unit, format) => {
  expect(formatOf(name, unit)).toBe(format);
});

test("a table quotes names and keeps every digit", () => {
  const text = seriesTable([part("a", [0.1 + 0.2, NaN])], () => 'say "hi", you');
  expect(text).toBe(
    'run,id,rank,metric,axis,x,value,t\r\n"say ""hi"", you",a,0,loss,step,0,0.30000000000000004,100\r\n"say ""hi"", you",a,0,loss,step,1,nan,101\r\n',
  );
});
