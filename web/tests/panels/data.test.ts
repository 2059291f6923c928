import { expect, test } from "vitest";

import { barsOf, factsOf, noteOf } from "../../src/panels/data.tsx";
import type { DataSplit } from "../../src/wire.ts";

const SPLIT: DataSplit = {
  name: "eval",
  is_training: false,
  sampler: "SequentialSampler",
  workers: 2,
  ranks: 1,
  dataset_samples: 1000,
  on_device: 0,
  epochs: [
    {
      attempt: 1,
      epoch: 1,
      samples: 1000,
      batches: 10,
      complete: true,
      compared: 400,
      repeated: 0,
      padding: 0.6,
      mean: null,
      std: null,
    },
  ],
  overlaps: [{ training: "train", by: "content", share: 0.25, compared: 400, error: 0.0217 }],
  labels: { 0: 10, 1: 90 },
  one_class: 0.1,
  lengths: { 4: 1, 16: 3 },
  mean_length: 9.5,
  nonfinite: 3,
  constant: 0,
};

test("the figures of a split say what is wrong with it", () => {
  const facts = new Map(factsOf(SPLIT).map(({ name, text, isBad }) => [name, [text, isBad]]));
  expect(facts.get("Samples per epoch")).toEqual(["1.0k of 1.0k in the dataset", false]);
  expect(facts.get("Repeated")).toEqual(["0.0\u00a0% of 400 compared", false]);
  expect(facts.get("In train, by content")).toEqual([
    "25.0\u00a0% ± 2.2\u00a0% of 400 compared",
    true,
  ]);
  expect(facts.get("Batches of one class")).toEqual(["10.0\u00a0%", false]);
  expect(facts.get("Padding")).toEqual(["60.0\u00a0%", true]);
  expect(facts.get("Not finite")).toEqual(["3 samples", true]);
  expect(facts.has("Constant")).toBe(false);
});

test("the note names the split's sampler and workers", () => {
  expect(noteOf(SPLIT)).toBe("evaluation data · SequentialSampler · 2 workers");
});

test("bars are shares, the most frequent first; lengths keep their order", () => {
  expect(barsOf(SPLIT.labels).map(({ label, share }) => [label, share])).toEqual([
    ["1", 0.9],
    ["0", 0.1],
  ]);
  expect(barsOf(SPLIT.lengths, (edge) => `≤ ${edge}`, true).map(({ label }) => label)).toEqual([
    "≤ 4",
    "≤ 16",
  ]);
  const many = barsOf(
    Object.fromEntries(Array.from({ length: 20 }, (_, label) => [`c${label}`, 5])),
  );
  expect(many.length).toBe(13);
  expect(many.at(-1)!.label).toBe("8 more");
});
