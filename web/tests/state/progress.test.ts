import { expect, test } from "vitest";

import { progressOf } from "../../src/state/progress.ts";
import type { RunRow } from "../../src/wire.ts";

function row(more: Partial<RunRow>, state = "running"): RunRow {
  return {
    created: 1000,
    updated: 1100,
    step: null,
    epoch: null,
    total_steps: null,
    num_epochs: null,
    ends_at: null,
    attempts: 1,
    status: { state },
    ...more,
  } as RunRow;
}

test("the time left runs out at the end that the server expects", () => {
  const running = row({ step: 49, total_steps: 200, ends_at: 1400 });
  expect(progressOf(running, 1100)).toEqual({
    share: 0.25,
    done: 50,
    total: 200,
    unit: "step",
    elapsedS: 100,
    leftS: 300,
  });
  expect(progressOf(running, 1130).leftS).toBe(270);
});

test("an expected end that has passed promises nothing", () => {
  expect(progressOf(row({ step: 49, total_steps: 200, ends_at: 1400 }), 1401).leftS).toBeNull();
});

test("a run that has ended takes no more time", () => {
  expect(
    progressOf(row({ step: 49, total_steps: 200, ends_at: 20000 }, "crashed"), 9999),
  ).toMatchObject({ elapsedS: 100, leftS: null });
});

test("who counts from 1 is not ahead of the end", () => {
  expect(progressOf(row({ step: 200, total_steps: 200 }), 1100)).toMatchObject({
    done: 200,
    share: 1,
    leftS: null,
  });
});

test("without an end nothing is promised, and the step is the last one", () => {
  expect(progressOf(row({ step: 5 }), 1100)).toMatchObject({ share: null, leftS: null, done: 5 });
  expect(progressOf(row({ epoch: 2, num_epochs: 8 }), 1100)).toMatchObject({
    unit: "epoch",
    share: 0.25,
    leftS: null,
  });
});
