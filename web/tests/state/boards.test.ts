import { expect, test, vi } from "vitest";

import { hintAt } from "../../src/panels/parts/board-drag.ts";
import { blockOf, boardOf, changed, compact, HEIGHTS, joined, keyOf, moved, nearest, readBoard, resized, specOf, WIDTHS } from "../../src/state/boards.ts";

const BOARD = boardOf(["a", "b", "c"]);
const names = (board: typeof BOARD): readonly string[] => board.blocks.map(({ series }) => series.join("+"));

test("a board without what is usual is short, and reads back the same", () => {
  expect(compact(BOARD)).toEqual({ blocks: [{ kind: "chart", series: ["a"], width: 4 }, { kind: "chart", series: ["b"], width: 4 }, { kind: "chart", series: ["c"], width: 4 }] });
  expect(readBoard(JSON.parse(JSON.stringify(compact(BOARD))))).toEqual(BOARD);
});

test("what somebody wrote into an address is read as far as it is a board", () => {
  expect(readBoard(null)).toBeNull();
  expect(readBoard([1])).toBeNull();
  expect(readBoard({})!.blocks).toEqual([]);
  const read = readBoard({ name: 3, smooth: "x", runs: ["r"], x: "step", blocks: [null, { kind: "video" }, { kind: "chart", series: ["a", 2], width: 5, height: 9, limits: "no" }] })!;
  expect(read).toMatchObject({ name: "", smooth: 0, runs: ["r"], x: null });
  expect(read.blocks).toEqual([blockOf("chart", { series: ["a"], width: 4, height: 3 })]);
  // What no chart can show.
  const other = readBoard({ runs: [1, null, {}], x: "eval/loss", smooth: 1, blocks: [{ kind: "chart", limits: [5, 1] }, { kind: "chart", limits: [null, 1] }] })!;
  expect(other).toMatchObject({ runs: null, x: null, smooth: 0.99, blocks: [{ limits: null }, { limits: [null, 1] }] });
});

test("a block moves to a place, and no farther than the ends", () => {
  expect(names(moved(BOARD, 0, 1))).toEqual(["b", "a", "c"]);
  expect(names(moved(BOARD, 0, 9))).toEqual(["b", "c", "a"]);
  expect(names(moved(BOARD, 2, -1))).toEqual(["c", "a", "b"]);
});

test("a chart that is joined with another leaves its series there", () => {
  const after = joined(BOARD, 0, 2);
  expect(names(after)).toEqual(["b", "c+a"]);
  expect(names(joined(after, 1, 0))).toEqual(["b+c+a"]);
  // The chart stays the same element of the page.
  expect(keyOf(after.blocks[1]!)).toBe(keyOf(BOARD.blocks[2]!));
});

test("sizes go from one to the next and end there", () => {
  const block = BOARD.blocks[0]!;
  expect(resized(block, 1, -1)).toMatchObject({ width: 6, height: 1 });
  expect(resized(changed(block, { width: 12, height: 3 }), 1, 1)).toMatchObject({ width: 12, height: 3 });
  expect([1, 4.9, 5.1, 7.2, 11].map((wanted) => nearest(WIDTHS, wanted))).toEqual([3, 4, 6, 8, 12]);
  expect(nearest(HEIGHTS, 40)).toBe(3);
});

test("a chart that is not logarithmic leaves the scale to the choice for all", () => {
  expect(specOf(BOARD.blocks[0]!)).not.toHaveProperty("log_y");
  expect(specOf(blockOf("chart", { log_y: true })).log_y).toBe(true);
});

test("the edges of a chart mean beside it, and the middle into it", () => {
  expect([0.1, 0.5, 0.9].map((share) => hintAt(share, ["before", "join", "after"]))).toEqual(["before", "join", "after"]);
  expect([0, 0.4, 0.6, 1].map((share) => hintAt(share, ["before", "after"]))).toEqual(["before", "before", "after", "after"]);
  expect(hintAt(0.99, ["join"])).toBe("join");
});
