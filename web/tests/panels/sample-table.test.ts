import { describe, expect, it } from "vitest";

import {
  barsOf,
  distributionOf,
  linesOf,
  matrixOf,
  parseChart,
} from "../../src/panels/parts/chart-spec.tsx";
import {
  cellText,
  chosenRows,
  columnKind,
  compareCells,
  parseTable,
  searchTexts,
  shownText,
  tableCsv,
} from "../../src/panels/parts/table-data.ts";
import type { TableData, TableView } from "../../src/panels/parts/table-data.ts";

const PICTURE = { file: "ab.png", media_type: "image/png", caption: "a cat" };
const ROLLOUTS: TableData = {
  columns: ["prompt", "reward", "picture"],
  rows: [
    ["What is 2 + 2?\nAnswer.", 0.25, PICTURE],
    ["Name a cat", 10, null],
    ["Sing", "nan", null],
    ["Dance", 9, null],
    ["Wait", "-inf", null],
    ["Go", null, null],
  ],
};

function rowsOf(view: Partial<TableView>): readonly number[] {
  return chosenRows(
    ROLLOUTS,
    { sort: null, search: "", filters: {}, ...view },
    searchTexts(ROLLOUTS),
  );
}

describe("a table in a file", () => {
  it("has columns and rows, and is nothing else", () => {
    expect(parseTable('{"columns": ["a", 1], "data": [[1, "x"], [null, [2]]]}')).toEqual({
      columns: ["a", "1"],
      rows: [
        [1, "x"],
        [null, [2]],
      ],
    });
    for (const text of [
      "",
      "[]",
      "null",
      '{"columns": 1, "data": []}',
      '{"columns": [], "data": [1]}',
    ])
      expect(parseTable(text)).toBeNull();
  });

  it("shows numbers with few digits, files by their captions, and chats under each other", () => {
    expect([null, 0.123456789, 1234567, 3.2e-7, "x", true, [1, 2], PICTURE].map(shownText)).toEqual(
      ["", "0.123457", "1234567", "3.2e-7", "x", "true", "[1,2]", "a cat"],
    );
    expect(
      cellText([
        { role: "user", content: "Hi" },
        { role: "assistant", content: "Hello" },
      ]),
    ).toBe("user: Hi\n\nassistant: Hello");
  });

  it("tells what its columns hold", () => {
    expect(ROLLOUTS.columns.map((_, column) => columnKind(ROLLOUTS, column))).toEqual([
      "long",
      "number",
      "picture",
    ]);
  });

  it("sorts numbers as numbers, and leaves nan and nothing for the end", () => {
    expect(rowsOf({ sort: { column: 1, isDown: false } })).toEqual([4, 0, 3, 1, 2, 5]);
    expect(rowsOf({ sort: { column: 1, isDown: true } })).toEqual([1, 3, 0, 4, 2, 5]);
    expect(
      ["step 10", "step 9", "Step 1"].sort((one, other) => compareCells(one, other, false)),
    ).toEqual(["Step 1", "step 9", "step 10"]);
  });

  it("finds words in all cells, and numbers in columns", () => {
    expect(rowsOf({ search: "cat" })).toEqual([0, 1]);
    expect(rowsOf({ filters: { 1: "> 0.5" } })).toEqual([1, 3]);
    expect(rowsOf({ filters: { 0: "!cat", 1: "0..9" } })).toEqual([0, 3]);
    expect(rowsOf({ filters: { 0: " " } })).toHaveLength(6);
  });

  it("is quick with 100,000 rows", () => {
    const rows = Array.from({ length: 100_000 }, (_, row) => [
      `prompt ${row % 977} and more`,
      (row * 7919) % 100_003,
    ]);
    const table = { columns: ["prompt", "reward"], rows };
    const sorted = chosenRows(
      table,
      { sort: { column: 1, isDown: false }, search: "prompt 7", filters: { 1: "< 50000" } },
      searchTexts(table),
    );
    expect(sorted.length).toBeGreaterThan(1000);
    expect(
      chosenRows(
        table,
        { sort: { column: 0, isDown: true }, search: "", filters: {} },
        searchTexts(table),
      ),
    ).toHaveLength(100_000);
  });

  it("is saved as CSV with every digit", () => {
    expect(
      tableCsv(
        {
          columns: ["a,b", "c"],
          rows: [
            [0.123456789, PICTURE],
            ['say "x"', null],
          ],
        },
        [1, 0],
      ),
    ).toBe('"a,b",c\r\n"say ""x""",\r\n0.123456789,ab.png\r\n');
  });
});

describe("a table that is drawn", () => {
  const curve: TableData = {
    columns: ["recall", "precision", "class"],
    rows: [
      [1, 0.5, "dog"],
      [0, 1, "dog"],
      [0, "nan", "cat"],
      ["nan", 1, "cat"],
    ],
  };

  it("needs a known kind and its columns", () => {
    expect(parseChart({ kind: "line", x: "recall", y: "precision", title: "PR" }, curve)).toEqual({
      kind: "line",
      x: "recall",
      y: "precision",
      title: "PR",
    });
    for (const chart of [
      null,
      "line",
      { kind: "pie", x: "recall", y: "precision" },
      { kind: "line", x: "recall" },
      { kind: "bar", x: "recall", y: "speed" },
    ])
      expect(parseChart(chart, curve)).toBeNull();
    expect(parseChart({ kind: "histogram", x: "recall" }, curve)).not.toBeNull();
  });

  it("has a line for each colour, along x", () => {
    const lines = linesOf(curve, { kind: "line", x: "recall", y: "precision", color: "class" });
    expect(
      lines.map(({ label, data }) => [
        label,
        data.kind === "raw" && [...data.x],
        data.kind === "raw" && [...data.y],
      ]),
    ).toEqual([
      ["dog", [0, 1], [1, 0.5]],
      ["cat", [0], [NaN]],
    ]);
  });

  it("has bars of values, or of counts", () => {
    const table: TableData = {
      columns: ["name", "score"],
      rows: [
        ["a", 2],
        ["b", -4],
        ["a", null],
      ],
    };
    expect(
      barsOf(table, { kind: "bar", x: "name", y: "score" }).bars.map(({ label, share, text }) => [
        label,
        share,
        text,
      ]),
    ).toEqual([
      ["a", 0.5, "2"],
      ["b", 1, "-4"],
      ["a", null, ""],
    ]);
    expect(
      barsOf(table, { kind: "bar", x: "name" }).bars.map(({ label, text }) => [label, text]),
    ).toEqual([
      ["a", "2"],
      ["b", "1"],
    ]);
  });

  it("has bins for every value", () => {
    expect([...distributionOf([1, 1, 3]).counts]).toEqual([2, 0, 1]);
    expect(distributionOf([0.5, 0.5]).counts.reduce((sum, count) => sum + count)).toBe(2);
    expect(distributionOf([]).counts).toHaveLength(0);
  });

  it("is a matrix of counts with shares of each row", () => {
    const table: TableData = {
      columns: ["Actual", "Predicted", "n"],
      rows: [
        ["dog", "dog", 3],
        ["dog", "cat", 1],
        ["cat", "cat", 5],
      ],
    };
    const options = matrixOf(table, { kind: "matrix", x: "Predicted", y: "Actual", value: "n" })!;
    expect([options.rowNames, [...options.values]]).toEqual([
      ["dog", "cat"],
      [0.75, 0.25, 0, 1],
    ]);
    expect(options.cellTexts!.map((write) => write(0.75, 0))).toEqual(["3 · 75 %", "3"]);
    expect(options.format!(0.25, 1)).toBe("1 (25.0\u00a0% of the row)");
    const counted = matrixOf(
      {
        columns: ["y", "x"],
        rows: [
          [0, 1],
          [0, 1],
          [10, 9],
          [9, 9],
        ],
      },
      { kind: "matrix", x: "x", y: "y" },
    )!;
    expect([counted.rowNames, counted.cellTexts![1]!(0, 1 * 2 + 1)]).toEqual([
      ["0", "9", "10"],
      "1",
    ]);
  });

  it("is a matrix of values where they are no counts", () => {
    const options = matrixOf(
      {
        columns: ["a", "b", "r"],
        rows: [
          ["x", "x", 1],
          ["x", "y", -0.5],
        ],
      },
      { kind: "matrix", x: "b", y: "a", value: "r" },
    )!;
    expect([options.ramp, [...options.values]]).toEqual(["diverging", [1, -0.5]]);
  });
});
