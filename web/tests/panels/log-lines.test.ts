import { expect, test } from "vitest";

import { epochTable, logLine } from "../../src/panels/log.tsx";
import type { EntryRow } from "../../src/wire.ts";

function entry(
  kind: string,
  record: Record<string, unknown>,
  more: Partial<EntryRow> = {},
): EntryRow {
  return {
    position: "loop.1.0.0",
    kind,
    rank: 0,
    t: 1,
    step: null,
    name: null,
    record: { log: kind, t: 1, ...record },
    ...more,
  };
}

test.each([
  [entry("message", { level: "warning", text: "careful" }), "warning", "careful"],
  [entry("message", { level: "info", text: "load", duration_ms: 1532.25 }), "info", "load [1.5s]"],
  [entry("message", { level: "strange", text: "x" }), "info", "x"],
  [
    entry("event", { name: "checkpoint", path: "a.pt" }, { step: 1200 }),
    "info",
    "checkpoint at step 1,200 path=a.pt",
  ],
  [
    entry("event", { name: "exception", reason: "boom", traceback: "Traceback:\n  x" }),
    "error",
    "exception reason=boom\nTraceback:\n  x",
  ],
  [entry("event", { name: "records-lost", count: 3 }), "warning", "records-lost count=3"],
  [
    entry("epoch", { epoch: 2, total: 4, duration_s: 200, m: { loss: 0.5, acc: null } }),
    "info",
    "epoch 2/4  loss=0.5000  acc=nan  [3m 20s]",
  ],
  [
    entry("eval", { loss: 2, m: { acc: 0.25 } }, { step: 9 }),
    "info",
    "evaluation at step 9  loss=2.0000  acc=0.2500",
  ],
  [
    entry("finish", { status: "failed", reason: "out of memory", last_step: 7 }),
    "error",
    "failed after step 7: out of memory",
  ],
  [
    entry("finding", { severity: "error", sentence: "NaN.", state: "closed" }),
    "error",
    "NaN. (resolved)",
  ],
  [entry("resume", { attempt: 2, step: 200 }), "info", "attempt 2 resumes from step 200"],
  [entry("unheard-of", { a: 1 }), "info", "a=1"],
])("a record becomes a line", (row, level, text) => {
  expect(logLine(row)).toMatchObject({ level, text });
});

test("a record too large for a stream still has a line", () => {
  expect(logLine({ ...entry("message", {}), record: null }).text).toBe("");
});

test("epochs make a table, newest first, with every metric any of them has", () => {
  const table = epochTable([
    entry("epoch", {
      epoch: 1,
      total: 2,
      duration_s: 1.5,
      m: { loss: 1 },
      resources: { cpu_pct: 10 },
    }),
    entry("epoch", { epoch: 1, m: { loss: 9 } }, { rank: 1 }),
    entry("epoch", { epoch: 2, total: 2, m: { loss: null, acc: 0.5 }, nonfinite: { loss: "nan" } }),
  ]);
  expect(table.metrics).toEqual(["loss", "acc"]);
  expect(table.resources).toEqual(["cpu_pct"]);
  expect(table.rows.map(({ epoch }) => epoch)).toEqual(["2/2", "1/2"]);
  expect(table.rows[0]!.metrics).toEqual({ loss: "nan", acc: 0.5 });
});
