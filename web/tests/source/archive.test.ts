import { expect, test } from "vitest";

import { createArchiveSource } from "../../src/source/archive.ts";
import type { ArchiveBody, GroupTable, GroupTables, ImportanceTable } from "../../src/wire.ts";
import { WIRE_VERSION } from "../../src/wire.ts";

const TABLE = { metric: "loss", rows: [] } as unknown as GroupTable;
const TABLES = { keys: ["lr"], varying: ["lr"], repeats: [], runs: 2, tables: [TABLE], absent: [] } satisfies GroupTables;
const BODY: ArchiveBody = {
  wire: WIRE_VERSION, made: 0, runs: { rows: [], total: 0, offset: 0, pending: 0, groups: null }, axes: {}, responses: {}, blobs: {}, series: [],
  sweep: { groups: { lr: TABLES, "-seed": { ...TABLES, keys: ["lr", "wd"] } }, importance: { loss: { metric: "loss", has_forest: true } as ImportanceTable } },
};
const { sweep } = createArchiveSource(BODY);

test("a saved page has the groups that were computed when it was saved", async () => {
  expect((await sweep.groups({ metric: ["loss"], by: ["lr"], query: "not hidden" })).tables).toEqual([TABLE]);
  expect((await sweep.groups({ metric: ["loss"], all_but: ["seed"] })).keys).toEqual(["lr", "wd"]);
  expect((await sweep.importance({ metric: "loss" })).has_forest).toBe(false);
});

test("what a saved page does not have is said with what it has", async () => {
  await expect(sweep.groups({ metric: ["loss"], by: ["wd"] })).rejects.toThrow("groups by lr; all but seed");
  await expect(sweep.groups({ metric: ["acc"], by: ["lr"] })).rejects.toThrow("groups of loss");
  await expect(sweep.groups({ metric: ["loss"], by: ["lr"], query: "not hidden and (name ~ 'x')" })).rejects.toThrow("clear the filter");
  await expect(sweep.importance({ metric: "acc" })).rejects.toThrow("ranks keys for loss");
  await expect(sweep.importance({ metric: "loss", value: "best" })).rejects.toThrow("last values only");
});
