import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { createNotifier } from "../../src/state/notify.ts";
import type { RunRow } from "../../src/wire.ts";

const told: string[] = [];

beforeEach(() => {
  told.length = 0;
  vi.stubGlobal("window", { isSecureContext: true });
  vi.stubGlobal("localStorage", { getItem: () => "1", setItem: () => undefined });
  vi.stubGlobal(
    "Notification",
    class {
      static permission = "granted";

      constructor(title: string) {
        told.push(title);
      }
    },
  );
});
afterEach(() => void vi.unstubAllGlobals());

const row = (id: string, state: string, attempts = 1): RunRow =>
  ({
    id,
    name: id,
    project: "p",
    step: 1,
    attempts,
    status: { state, text: state, reason: null },
  }) as unknown as RunRow;

test("a run that a newer list says has ended is told once", () => {
  const notifier = createNotifier(() => undefined);
  const known = new Map([
    ["a", row("a", "running")],
    ["b", row("b", "finished")],
    ["c", row("c", "running")],
  ]);
  const newer = [
    row("a", "failed"),
    row("b", "finished"),
    row("c", "running"),
    row("new", "finished"),
  ];
  notifier.compare(newer, (id) => known.get(id));
  for (const one of newer) known.set(one.id, one);
  notifier.compare(newer, (id) => known.get(id));
  expect(told).toEqual(["a: failed"]);
});

test("an end that is announced again is told once, and the end of a resumed run again", () => {
  const notifier = createNotifier(() => undefined);
  const live = row("a", "running");
  notifier.compare([row("a", "failed")], () => live);
  notifier.compare([row("a", "failed")], () => live);
  expect(told).toEqual(["a: failed"]);
  notifier.compare([row("a", "finished", 2)], () => row("a", "running", 2));
  expect(told).toEqual(["a: failed", "a: finished"]);
});
