import { expect, test } from "vitest";

import { safeName } from "../../src/ui/download.ts";
import { compileFilter, patternQuery } from "../../src/ui/filter.ts";
import { nextIndex } from "../../src/ui/tabs.tsx";
import { scrollFor, windowOf } from "../../src/ui/window.ts";

test("only rows near the view are shown", () => {
  const view = { scrollTop: 1000, viewHeight: 260, rowHeight: 26, count: 1000, overscan: 2 };
  expect(windowOf(view)).toEqual({ start: 36, stop: 51 });
  expect(windowOf({ ...view, count: 3 })).toEqual({ start: 3, stop: 3 });
  expect(windowOf({ ...view, scrollTop: -50 })).toEqual({ start: 0, stop: 12 });
});

test("a row is brought into view by the shortest way", () => {
  const view = { scrollTop: 100, viewHeight: 100, rowHeight: 20 };
  expect([scrollFor(2, view), scrollFor(7, view), scrollFor(20, view)]).toEqual([40, 100, 320]);
});

test("words must all occur, in any case and order", () => {
  expect(["train/loss", "eval/loss"].map(compileFilter("LOSS train"))).toEqual([true, false]);
  expect(["train/loss", ""].map(compileFilter(" "))).toEqual([true, true]);
});

test("a phrase in quotes occurs as it is, and its numbers are no parts of others", () => {
  expect(
    ["Question 7 of 9", "question 71", "7 question", "question 7.5"].map(
      compileFilter('"question 7"'),
    ),
  ).toEqual([true, false, false, false]);
  expect(["reward 7", "reward 0.7", "17", "a7.", 'say "7'].map(compileFilter('"7"'))).toEqual([
    true,
    false,
    false,
    true,
    true,
  ]);
  expect(['say "7', "say 7"].map(compileFilter('say "'))).toEqual([true, false]);
});

test("a star stands for any characters, and nothing else is special", () => {
  expect(["layer.0/attn/norm", "norm/layer", "layer"].map(compileFilter("layer*NORM"))).toEqual([
    true,
    false,
    false,
  ]);
  expect(["a.b", "axb", "(["].map(compileFilter("a.b"))).toEqual([true, false, false]);
  expect(["a.b", "(["].map(compileFilter("(["))).toEqual([false, true]);
});

test("a pattern goes to the server inside quotes as itself", () => {
  expect(patternQuery("a.b")).toBe('text ~ "(?i)a.b"');
  expect(patternQuery("(?i)a")).toBe('text ~ "(?i)a"');
  expect(patternQuery('say "hi" \\" \\d\\\\')).toBe(
    'text ~ "(?i)say \\"hi\\" \\\\\\" \\\\d\\\\\\\\"',
  );
});

test("keys move around a ring", () => {
  expect(
    ["ArrowRight", "ArrowLeft", "Home", "End", "x"].map((key) => nextIndex(key, 2, 3)),
  ).toEqual([0, 1, 0, 2, null]);
});

test("file names hold nothing a system refuses", () => {
  expect(safeName('train/loss: "a"?.csv')).toBe("train-loss- -a-.csv");
  expect(safeName("../..")).toBe("chart");
});
