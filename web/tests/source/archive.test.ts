import { expect, test } from "vitest";

import { createArchiveSource } from "../../src/source/archive.ts";
import type {
  ArchiveBody,
  GroupTable,
  GroupTables,
  Importance,
  MetricRow,
  RunParams,
} from "../../src/wire.ts";
import { WIRE_VERSION } from "../../src/wire.ts";

const TABLE = { metric: "loss", rows: [] } as unknown as GroupTable;
const TABLES = {
  keys: ["lr"],
  varying: ["lr"],
  repeats: [],
  runs: 2,
  tables: [TABLE],
  absent: [],
} satisfies GroupTables;
const BODY: ArchiveBody = {
  wire: WIRE_VERSION,
  made: 0,
  runs: { rows: [], total: 0, offset: 0, groups: null },
  axes: {},
  responses: {},
  blobs: {},
  series: [],
  sweep: {
    groups: { lr: TABLES, "-seed": { ...TABLES, keys: ["lr", "wd"] } },
    importance: { loss: { metric: "loss" } as Importance },
  },
  boards: [{ project: "p", revision: "1", board: { name: "paper" }, problem: null }],
  board: null,
  problems: { "a - gone": "It needs gone." },
};
const { sweep } = createArchiveSource(BODY);

test("a saved page has the groups that were computed when it was saved", async () => {
  expect(
    (await sweep.groups({ metric: ["loss"], by: ["lr"], query: "not hidden" })).tables,
  ).toEqual([TABLE]);
  expect((await sweep.groups({ metric: ["loss"], all_but: ["seed"] })).keys).toEqual(["lr", "wd"]);
  expect((await sweep.importance({ metric: "loss" })).metric).toBe("loss");
});

test("a saved page has boards, which cannot be changed", async () => {
  const { boards, exportUrl } = createArchiveSource(BODY);
  expect((await boards.list()).boards.map(({ board }) => board.name)).toEqual(["paper"]);
  expect([boards.save, boards.remove, exportUrl({ board: "paper" })]).toEqual([null, null, null]);
});

test("what a saved page does not have is said with what it has", async () => {
  await expect(sweep.groups({ metric: ["loss"], by: ["wd"] })).rejects.toThrow(
    "groups by lr; all but seed",
  );
  await expect(sweep.groups({ metric: ["acc"], by: ["lr"] })).rejects.toThrow("groups of loss");
  await expect(
    sweep.groups({ metric: ["loss"], by: ["lr"], query: "not hidden and (name ~ 'x')" }),
  ).rejects.toThrow("clear the filter");
  await expect(sweep.importance({ metric: "acc" })).rejects.toThrow("ranks keys for loss");
  await expect(sweep.importance({ metric: "loss", value: "best" })).rejects.toThrow(
    "last values only",
  );
});

test("a saved page finds metrics as the server does", async () => {
  const metrics = ["train/loss", "layers/1/norm", "layers/2/norm", "plain"].map(
    (name) => ({ name, axis: "step" }) as MetricRow,
  );
  const source = createArchiveSource({
    ...BODY,
    responses: { x: { run_metrics: { metrics, total: 4, offset: 0 } } },
  });
  const names = async (params: RunParams["run_metrics"]): Promise<string> => {
    const { metrics: found, total } = await source.get("run_metrics", "x", params);
    return `${total}: ${found.map(({ name }) => name).join(" ")}`;
  };
  expect(await names({ find: "NORM 2" })).toBe("1: layers/2/norm");
  expect(await names({ find: "layers*norm", offset: 1 })).toBe("2: layers/2/norm");
  expect(await names({ section: "metrics" })).toBe("1: plain");
  expect(await names({ name: ["plain", "train/loss"], limit: 1 })).toBe("2: train/loss");
});

/** Series of a run, every point of each, as a file has them. */
function packed(
  series: Readonly<Record<string, readonly [x: readonly number[], y: readonly number[]]>>,
): string {
  const heads = Object.entries(series).map(([name, [x]]) => ({
    run: "x",
    name,
    rank: 0,
    axis: "step",
    x: "step",
    raw: true,
    count: x.length,
    points: x.length,
    nonfinite: 0,
    nonfinite_points: 0,
    duplicates: 0,
    hidden: 0,
    lo: 0,
    hi: x.at(-1),
    columns: [],
    smooth_state: null,
  }));
  const numbers = Object.values(series).flatMap(([x, y]) => [...x, ...y, ...x]);
  const text = new TextEncoder().encode(
    JSON.stringify({ version: WIRE_VERSION, series: heads, missing: [], positions: {} }),
  );
  const padding = -text.length & 7;
  const bytes = new Uint8Array(8 + text.length + padding + numbers.length * 8).fill(32);
  bytes.set(new TextEncoder().encode("EPS1"));
  const view = new DataView(bytes.buffer);
  view.setUint32(4, text.length + padding, true);
  bytes.set(text, 8);
  numbers.forEach((value, index) =>
    view.setFloat64(8 + text.length + padding + index * 8, value, true),
  );
  return btoa(String.fromCharCode(...bytes));
}

test("a saved page draws a metric along another one, or explains why it cannot", async () => {
  const source = createArchiveSource({
    ...BODY,
    series: [
      packed({
        loss: [
          [0, 1, 2, 3],
          [5, 6, 7, 8],
        ],
        "eval/loss": [
          [1, 3],
          [0.5, 0.25],
        ],
      }),
    ],
  });
  const ask = (name: string, x: string | null): ReturnType<typeof source.series> =>
    source.series({ runs: ["x"], names: [name], x } as never);
  const { parts, missing } = await ask("loss", "eval/loss");
  // Each point is where the other metric was last, as the server puts it.
  expect(parts[0]).toMatchObject({
    head: { x: "eval/loss", count: 3 },
    data: { x: Float64Array.of(0.25, 0.5, 0.5), y: Float64Array.of(8, 6, 7) },
  });
  expect(missing).toEqual([]);
  expect((await ask("loss", "gone")).missing[0]!.reason).toBe(
    "This chart needs the server: the file has no x axis gone.",
  );
  expect((await ask("a - gone", null)).missing[0]!.reason).toBe("It needs gone.");
});

test("a saved page draws progress from the plan of a run, or from what it recorded", async () => {
  const series = [
    packed({
      "a - b": [
        [0, 3],
        [1.5, 2.5],
      ],
    }),
  ];
  const x = async (row: object): Promise<readonly number[]> => {
    const source = createArchiveSource({
      ...BODY,
      responses: { x: { run: { row } } } as never,
      series,
    });
    const { parts } = await source.series({
      runs: ["x"],
      names: ["a - b"],
      x: "progress",
    } as never);
    expect(parts[0]!.head.x).toBe("progress");
    return [...(parts[0]!.data as unknown as { x: Float64Array }).x];
  };
  expect(await x({ total_steps: 8, step: 3 })).toEqual([12.5, 50]);
  expect(await x({ total_steps: null, step: 3 })).toEqual([25, 100]);
});
