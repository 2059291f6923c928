import { expect, test } from "vitest";

import { endOf, limitsOf, withLimits } from "../../src/state/y-limits.ts";

test("limits are kept for each metric, with one end or both", () => {
  const all = withLimits(withLimits([], "loss", { min: 0, max: 4 }), "a:b", { min: null, max: 1e-3 });
  expect(limitsOf(all, "loss")).toEqual({ min: 0, max: 4 });
  expect(limitsOf(all, "a:b")).toEqual({ min: null, max: 0.001 });
  expect(limitsOf(all, "a")).toEqual({ min: null, max: null });
  expect(withLimits(all, "loss", { min: null, max: null })).toEqual(["a:b:..0.001"]);
});

test.each([["1e-3", 0.001], [" 2 ", 2], ["", null], ["x", null], ["-0.5", -0.5]])("%j is read as %j", (text, value) => {
  expect(endOf(text)).toBe(value);
});
