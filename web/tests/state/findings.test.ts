/** In which order findings stand. */

import { expect, test } from "vitest";

import { evidenceWords, findingsOf, internalErrorsOf } from "../../src/state/findings.ts";
import type { EntryRow } from "../../src/wire.ts";

const entry = (id: string, severity: string, state = "open"): EntryRow => ({
  position: id,
  kind: "finding",
  rank: 0,
  t: 0,
  step: null,
  name: null,
  record: { id, severity, state },
});

test("what still holds comes first, the gravest before the newest", () => {
  const entries = [
    entry("old", "warning"),
    entry("over", "error", "closed"),
    entry("bad", "error"),
    entry("note", "info"),
    entry("new", "warning"),
  ];
  expect(findingsOf("run", entries).map(({ id }) => id)).toEqual([
    "bad",
    "new",
    "old",
    "note",
    "over",
  ]);
});

test("evidence that is a size reads as one", () => {
  expect(evidenceWords("before_bytes", 490733568)).toEqual(["before", "468.0 MiB"]);
  expect(evidenceWords("loss", 15764840887091.2)).toEqual(["loss", "1.576e+13"]);
  expect(evidenceWords("steps", 1200)).toEqual(["steps", "1,200"]);
  expect(evidenceWords("loss", "nan")).toEqual(["loss", "nan"]);
});

test("faults of Epochal itself are counted by member", () => {
  const fault = (member: string, count?: number): EntryRow => ({
    position: member,
    kind: "event",
    rank: 0,
    t: 0,
    step: null,
    name: "internal-error",
    record: { log: "event", name: "internal-error", member, reason: "ValueError: x", count },
  });
  expect(
    internalErrorsOf([entry("bad", "error"), fault("rule a", 3), fault("sink b"), fault("rule a")]),
  ).toEqual([
    { member: "rule a", reason: "ValueError: x", count: 4 },
    { member: "sink b", reason: "ValueError: x", count: 1 },
  ]);
});
