import { expect, test, vi } from "vitest";

import { hintAt } from "../../src/panels/parts/board-drag.ts";
import { SourceError } from "../../src/source/source.ts";
import type { Source } from "../../src/source/source.ts";
import { createView } from "../../src/state/view.ts";
import type { View } from "../../src/state/view.ts";
import type { Board as WireBoard, StoredBoard as WireStoredBoard } from "../../src/wire.ts";
import {
  blockOf,
  boardOf,
  changed,
  compact,
  createBoards,
  HEIGHTS,
  joined,
  keyOf,
  moved,
  nearest,
  readBoard,
  resized,
  specOf,
  WIDTHS,
} from "../../src/state/boards.ts";

const BOARD = boardOf(["a", "b", "c"]);
const names = (board: typeof BOARD): readonly string[] =>
  board.blocks.map(({ series }) => series.join("+"));

test("a board without what is usual is short, and reads back the same", () => {
  expect(compact(BOARD)).toEqual({
    blocks: [
      { kind: "chart", series: ["a"], width: 4 },
      { kind: "chart", series: ["b"], width: 4 },
      { kind: "chart", series: ["c"], width: 4 },
    ],
  });
  expect(readBoard(JSON.parse(JSON.stringify(compact(BOARD))))).toEqual(BOARD);
});

test("what somebody wrote into an address is read as far as it is a board", () => {
  expect(readBoard(null)).toBeNull();
  expect(readBoard([1])).toBeNull();
  expect(readBoard({})!.blocks).toEqual([]);
  const read = readBoard({
    name: 3,
    smooth: "x",
    runs: ["r"],
    x: "step",
    blocks: [
      null,
      { kind: "video" },
      { kind: "chart", series: ["a", 2], width: 5, height: 9, limits: "no" },
    ],
  })!;
  expect(read).toMatchObject({ name: "", smooth: 0, runs: ["r"], x: null });
  expect(read.blocks).toEqual([blockOf("chart", { series: ["a"], width: 4, height: 3 })]);
  // What no chart can show.
  const other = readBoard({
    runs: [1, null, {}],
    x: "eval/loss",
    smooth: 1,
    blocks: [
      { kind: "chart", limits: [5, 1] },
      { kind: "chart", limits: [null, 1] },
    ],
  })!;
  expect(other).toMatchObject({
    runs: null,
    x: null,
    smooth: 0.99,
    blocks: [{ limits: null }, { limits: [null, 1] }],
  });
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
  expect(resized(changed(block, { width: 12, height: 3 }), 1, 1)).toMatchObject({
    width: 12,
    height: 3,
  });
  expect([1, 4.9, 5.1, 7.2, 11].map((wanted) => nearest(WIDTHS, wanted))).toEqual([3, 4, 6, 8, 12]);
  expect(nearest(HEIGHTS, 40)).toBe(3);
});

test("a chart that is not logarithmic leaves the scale to the choice for all", () => {
  expect(specOf(BOARD.blocks[0]!)).not.toHaveProperty("log_y");
  expect(specOf(blockOf("chart", { log_y: true })).log_y).toBe(true);
});

test("the edges of a chart mean beside it, and the middle into it", () => {
  expect([0.1, 0.5, 0.9].map((share) => hintAt(share, ["before", "join", "after"]))).toEqual([
    "before",
    "join",
    "after",
  ]);
  expect([0, 0.4, 0.6, 1].map((share) => hintAt(share, ["before", "after"]))).toEqual([
    "before",
    "before",
    "after",
    "after",
  ]);
  expect(hintAt(0.99, ["join"])).toBe("join");
});

/** Boards of a server, whose revisions are their contents as those of files are. */
function serve(...stored: WireStoredBoard[]): {
  readonly source: Source;
  readonly stored: WireStoredBoard[];
  put(project: string, board: object): WireStoredBoard;
} {
  const put = (project: string, board: object): WireStoredBoard => {
    const one = {
      project,
      board: board as WireBoard,
      revision: JSON.stringify(board),
      problem: null,
    };
    const at = stored.findIndex(
      (other) => other.project === project && other.board.name === one.board.name,
    );
    stored.splice(at < 0 ? stored.length : at, at < 0 ? 0 : 1, one);
    return one;
  };
  const check = (project: string, name: string, revision: string | null): void => {
    if (
      (stored.find((one) => one.project === project && one.board.name === name)?.revision ??
        null) !== revision
    )
      throw new SourceError("changed by somebody else.", 409);
  };
  const boards: Source["boards"] = {
    list: async () => ({ boards: [...stored] }),
    save: async (project, board, revision) => {
      check(project, board.name, revision);
      return put(project, board);
    },
    remove: async (project, name, revision) => {
      check(project, name, revision);
      stored.splice(
        stored.findIndex((one) => one.project === project && one.board.name === name),
        1,
      );
    },
  };
  return { source: { boards } as Source, stored, put };
}

function viewAt(hash: string): View {
  vi.stubGlobal("window", new EventTarget());
  vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => undefined });
  return createView(
    { hash } as Location,
    { replaceState: () => undefined, pushState: () => undefined } as unknown as History,
  );
}

test("a board that somebody else saved in the meantime is not renamed", async () => {
  const server = serve();
  server.put("p", { name: "b", blocks: [] });
  const boards = createBoards(server.source, viewAt("#board=b"));
  await boards.refresh();
  boards.change(boardOf(["mine"]));
  server.put("p", { name: "b", blocks: [{ kind: "text", text: "theirs" }] });
  await expect(boards.rename("c")).rejects.toThrow("Somebody else saved");
  expect(server.stored.map(({ board }) => board)).toEqual([
    { name: "b", blocks: [{ kind: "text", text: "theirs" }] },
  ]);
});

test("a board that is saved as it was before has no conflict with itself", async () => {
  const server = serve();
  server.put("p", { name: "b", blocks: [{ kind: "text", text: "A" }] });
  const boards = createBoards(server.source, viewAt("#board=b"));
  await boards.refresh();
  for (const text of ["B", "A", "C"]) {
    boards.change({ ...boards.board.value!, blocks: [blockOf("text", { text })] });
    expect([boards.conflict.value, boards.isChanged.value]).toEqual([null, true]);
    await boards.save("p", "b");
    expect([boards.conflict.value, boards.isChanged.value]).toEqual([null, false]);
  }
  expect(server.stored[0]!.board.blocks).toEqual([{ kind: "text", text: "C" }]);
});

test("boards of the same name are kept apart by their projects", async () => {
  const server = serve();
  for (const project of ["a", "b"])
    server.put(project, { name: "same", blocks: [{ kind: "text", text: project }] });
  const view = viewAt("");
  const boards = createBoards(server.source, view);
  await boards.refresh();
  boards.open(boards.stored.value![1]!);
  expect([view.board.value, boards.board.value!.blocks[0]!.text]).toEqual(["b/same", "b"]);
  await boards.remove();
  expect(server.stored.map(({ project }) => project)).toEqual(["a"]);
});

test.each(["null", "3", "{", "[]"])("the draft %s is ignored", (draft) => {
  const boards = createBoards(serve().source, viewAt(`#draft=${draft}`));
  expect(boards.board.value).toBeNull();
});
