import { expect, test } from "vitest";

import { MOST_SPREADS, rankMatrix } from "../../src/panels/parts/rank-matrix.ts";
import type { SeriesPart } from "../../src/source/source.ts";
import type { SeriesHead } from "../../src/wire.ts";

function part(rank: number, y: readonly number[], start = 0): SeriesPart {
  const x = Float64Array.from(y, (_, index) => start + index);
  return {
    head: { rank } as SeriesHead,
    data: { kind: "raw", x, y: Float64Array.from(y) },
    times: null,
  };
}

test("every rank has a row while there is room, in the order of ranks", () => {
  const found = rankMatrix([part(1, [3, 4]), part(0, [1, 2])], 10, 10)!;
  expect(found.rowNames).toEqual(["rank 0", "rank 1"]);
  expect([...found.values]).toEqual([1, 2, 3, 4]);
  expect([...rankMatrix([part(0, [1, 2, 3, 4, 5], 10)], 10, 10)!.x]).toEqual([10, 11, 12, 13, 14]);
});

test("of a thousand ranks the one that differs most is seen in its row", () => {
  const parts = Array.from({ length: 1000 }, (_, rank) =>
    part(rank, Array<number>(50).fill(rank === 337 ? 90 : 10)),
  );
  const found = rankMatrix(parts, 100, 25)!;
  expect(found.rowNames).toHaveLength(100);
  expect(found.rowNames[33]).toBe("330–339");
  expect([...found.values.subarray(33 * 25, 34 * 25)]).toEqual(Array<number>(25).fill(90));
  expect(found.ranks[33 * 25]).toBe(337);
  expect(found.values[0]).toBe(10);
});

test("a rank that stopped is seen among those that go on, and one that is a little behind is not taken for it", () => {
  const parts = Array.from({ length: 20 }, (_, rank) =>
    part(rank, Array<number>(rank === 13 ? 30 : rank === 3 ? 49 : 50).fill(10)),
  );
  const found = rankMatrix(parts, 2, 25)!;
  expect(found.perRow).toBe(10);
  expect([...found.values.subarray(0, 25)]).toEqual(Array<number>(25).fill(10));
  expect([...found.values.subarray(25)]).toEqual([
    ...Array<number>(15).fill(10),
    ...Array<number>(10).fill(-Infinity),
  ]);
  expect(found.ranks[25 + 20]).toBe(13);
});

test("what is not finite and what was never logged are told apart", () => {
  const found = rankMatrix([part(0, [1, NaN, 3, 4]), part(1, [1, 2])], 10, 4)!;
  expect(found.values[1]).toBeNaN();
  expect([...found.values.subarray(4)]).toEqual([1, 2, -Infinity, -Infinity]);
  expect(rankMatrix([], 10, 10)).toBeNull();
});

test("a rank that is off by little beside a falling loss, but by much beside the others, stands out", () => {
  const noise = (rank: number, step: number): number =>
    Math.sin(rank * 12.9898 + step * 78.233) / 100;
  const losses = (rank: number): number[] =>
    Array.from(
      { length: 50 },
      (_, step) => 5 * Math.exp(-step / 20) + noise(rank, step) + (rank === 337 ? 0.1 : 0),
    );
  const found = rankMatrix(
    Array.from({ length: 1000 }, (_, rank) => part(rank, losses(rank))),
    100,
    25,
  )!;
  const rows = Array.from({ length: 100 }, (_, row) =>
    found.deviations!.subarray(row * 25, (row + 1) * 25),
  );
  expect(rows[33]!.every((deviation) => deviation > MOST_SPREADS)).toBe(true);
  expect(
    rows.every(
      (row, index) =>
        index === 33 || row.every((deviation) => Math.abs(deviation) < MOST_SPREADS / 2),
    ),
  ).toBe(true);
});

test("ranks whose middle stays where it is are drawn by their values", () => {
  const parts = Array.from({ length: 20 }, (_, rank) =>
    part(
      rank,
      Array.from({ length: 50 }, (__, step) => 400 + 5 * Math.sin(rank * 7 + step * 3)),
    ),
  );
  expect(rankMatrix(parts, 10, 25)!.deviations).toBeNull();
  expect(rankMatrix([part(0, [9, 1]), part(1, [9.1, 1.1])], 10, 10)!.deviations).toBeNull();
});
