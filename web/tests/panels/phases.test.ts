import { expect, test } from "vitest";

import { phaseMeaning, phaseStretches } from "../../src/panels/parts/phases.ts";
import type { PlacedMark } from "../../src/state/marks.ts";

function mark(kind: PlacedMark["kind"], label: string, x: number): PlacedMark {
  return { kind, label, x, gpu: null };
}

test("a phase lasts until the next begins, and the last one until the run ends", () => {
  const marks = [
    mark("phase", "warm-up", 0),
    mark("epoch", "epoch 1", 5),
    mark("phase", "diverging", 9),
  ];
  expect(phaseStretches(marks, 20)).toEqual([
    { min: 0, max: 9, label: "phase: warm-up", tone: "quiet" },
    { min: 9, max: 20, label: "phase: diverging", tone: "critical" },
  ]);
});

test("a word that nobody knows is shown all the same", () => {
  expect(phaseStretches([mark("phase", "annealing", 0)], 1)[0]).toMatchObject({
    label: "phase: annealing",
    tone: "quiet",
  });
  expect(phaseMeaning("annealing")).toBeNull();
});
