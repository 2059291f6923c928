import { describe, expect, it } from "vitest";

import { cellText, parseTable } from "../../src/panels/parts/blob-table.tsx";

describe("a table in a file", () => {
  it("has columns and rows", () => {
    expect(parseTable('{"columns": ["a", 1], "data": [[1, "x"], [null, [2]]]}')).toEqual({ columns: ["a", "1"], rows: [[1, "x"], [null, [2]]] });
  });

  it("is nothing else", () => {
    for (const text of ["", "[]", "null", '{"columns": 1, "data": []}', '{"columns": [], "data": [1]}']) expect(parseTable(text)).toBeNull();
  });

  it("shows cells as text", () => {
    expect([null, 1.5, "x", true, [1, 2]].map(cellText)).toEqual(["", "1.5", "x", "true", "[1,2]"]);
  });
});
