import { expect, test } from "vitest";

import { expandPatterns, isFormula, missingText, titleOf } from "../../src/state/chart-spec.ts";

test.each([
  ["train/loss - eval/loss", true],
  ["tokens / time", true],
  ["ema(loss, 0.9)", true],
  ["-loss", true],
  ["loss -eval/loss", true],
  ["train/loss", false],
  ["val-loss", false],
  ["eval/*", false],
  ["loss(x)", false],
])("%s is a formula: %s", (name, expected) => {
  expect(isFormula(name)).toBe(expected);
});

test("patterns are replaced by what they match, each metric once; formulas stay", () => {
  const metrics = ["train/loss", "eval/loss", "eval/acc", "a.b"];
  expect(
    expandPatterns(["eval/loss", "eval/*", "train/loss * 2", "a?b", "nowhere/*"], metrics),
  ).toEqual(["eval/loss", "eval/acc", "train/loss * 2", "a.b"]);
  expect(expandPatterns(["*l?ss", "**a*", "*.?", "?"], ["loss", "eval/loss", "a.b"])).toEqual([
    "loss",
    "eval/loss",
    "a.b",
  ]);
});

test.each([`${"*".repeat(60)}!`, `${"*?".repeat(30)}!`, `${"a*".repeat(30)}!`])(
  "the pattern %s does not take for ever",
  (pattern) => {
    expect(expandPatterns([pattern], ["a".repeat(200)])).toEqual([]);
  },
);

test.each([
  ["train/lo", "No run in the charts has a metric `train/lo`. Did you mean `train/loss`?"],
  [
    "eval/acuracy",
    "No run in the charts has a metric `eval/acuracy`. Did you mean `eval/accuracy`?",
  ],
  ["reward", "No run in the charts has a metric `reward`."],
  ["evla/*", "No metric matches `evla/*`."],
  ["accuracy", null],
  ["lr", null],
  ["eval/*", null],
  ["train/lo * 2", null],
])("%s is missing: %s", (name, expected) => {
  const metrics = ["train/loss", "eval/accuracy", "rate"].map((one) => ({
    name: one,
    role: one === "rate" ? "lr" : null,
  }));
  expect(missingText(["train/loss", name], metrics)).toBe(expected);
  expect(missingText([name], [])).toBeNull();
});

test("a chart without a title has the names of its series", () => {
  expect(titleOf({ series: ["train/loss", "eval/*"] })).toBe("train/loss, eval/*");
  expect(titleOf({ series: ["loss"], title: "Loss" })).toBe("Loss");
});
