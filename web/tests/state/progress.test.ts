import { expect, test } from "vitest";

import { noteSeen, progressOf } from "../../src/state/progress.ts";
import type { RunRow } from "../../src/wire.ts";

function row(more: Partial<RunRow>, state = "running"): RunRow {
  return { created: 1000, updated: 1100, step: null, epoch: null, total_steps: null, num_epochs: null, attempts: 1, status: { state }, ...more } as RunRow;
}

test("the time left follows from the time taken", () => {
  expect(progressOf(row({ step: 49, total_steps: 200 }), 1100)).toEqual({ share: 0.25, done: 50, total: 200, unit: "step", elapsedS: 100, leftS: 300 });
});

test("a run that has ended takes no more time", () => {
  expect(progressOf(row({ step: 49, total_steps: 200 }, "crashed"), 9999)).toMatchObject({ elapsedS: 100, leftS: null });
});

test("who counts from 1 is not ahead of the end", () => {
  expect(progressOf(row({ step: 200, total_steps: 200 }), 1100)).toMatchObject({ done: 200, share: 1, leftS: null });
});

test("without an end nothing is promised", () => {
  expect(progressOf(row({ step: 5 }), 1100)).toMatchObject({ share: null, leftS: null, done: 6 });
  expect(progressOf(row({ epoch: 2, num_epochs: 8 }), 1100)).toMatchObject({ unit: "epoch", share: 0.25, leftS: 300 });
});

test("the present pace counts more than the past", () => {
  const slow = [0, 1, 2].reduce((seen, at) => noteSeen(seen, row({ step: 100 + at, updated: 1100 + at * 10 })), [] as ReturnType<typeof noteSeen>);
  expect(progressOf(row({ step: 102, updated: 1120, total_steps: 203 }), 1120, slow).leftS).toBeCloseTo(1000);
});
