import { signal } from "@preact/signals";
import { beforeEach, expect, test, vi } from "vitest";

import type { Update, Source } from "../../src/source/source.ts";
import { createMarks } from "../../src/state/marks.ts";
import type { EntryRow, Mark } from "../../src/wire.ts";

function made(marks: Mark[]): { asked: string[]; source: Source } {
  const asked: string[] = [];
  return {
    asked,
    source: {
      get: async (_: string, run: string) => {
        asked.push(run);
        return { marks };
      },
    } as unknown as Source,
  };
}

function update(...kinds: string[]): Update {
  const entries = kinds.map((kind) => ({ kind }) as EntryRow);
  return {
    type: "records",
    run: "a",
    from: null,
    to: "",
    points: [],
    entries,
    partial: false,
    hasAllRanks: false,
  };
}

const EPOCH: Mark = { kind: "epoch", label: "epoch 1", at: { step: 9, wall: 1000 }, gpu: null };
const PHASE: Mark = { kind: "phase", label: "plateau", at: { step: 4 }, gpu: null };

beforeEach(() => {
  vi.useFakeTimers();
});

test("marks stand along the axes they have a place on, ascending", async () => {
  const marks = createMarks(made([EPOCH, PHASE]).source, signal("a"));
  await vi.advanceTimersByTimeAsync(0);
  expect(marks.onAxis("step").map(({ label, x }) => [label, x])).toEqual([
    ["plateau", 4],
    ["epoch 1", 9],
  ]);
  expect(marks.onAxis("wall").map(({ label }) => label)).toEqual(["epoch 1"]);
  expect(marks.onAxis("tokens")).toEqual([]);
  expect(marks.phase.value).toBe("plateau");
});

test("what happens is asked for soon, and phases now and then", async () => {
  const { source, asked } = made([]);
  const marks = createMarks(source, signal("a"));
  marks.apply(update("text"));
  await vi.advanceTimersByTimeAsync(1000);
  expect(asked).toHaveLength(1);
  marks.apply(update("epoch"));
  await vi.advanceTimersByTimeAsync(1000);
  expect(asked).toHaveLength(2);
  marks.apply(update());
  marks.apply(update());
  await vi.advanceTimersByTimeAsync(11_000);
  expect(asked).toHaveLength(3);
});

test("another run in focus has marks of its own", async () => {
  const { source, asked } = made([EPOCH]);
  const run = signal<string | null>("a");
  createMarks(source, run);
  run.value = "b";
  await vi.advanceTimersByTimeAsync(0);
  expect(asked).toEqual(["a", "b"]);
});
