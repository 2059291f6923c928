import { expect, test } from "vitest";

import { ema, gaussian, smooth } from "../../src/chart/smooth.ts";
import vectors from "./vectors.json" with { type: "json" };

const values = Float64Array.from(vectors.smooth.values, (value) => value ?? NaN);

function expectSame(found: Float64Array, wanted: readonly (number | null)[]): void {
  wanted.forEach((value, index) => {
    if (value === null) expect(found[index]).toBeNaN();
    else expect(found[index]).toBeCloseTo(value, 10);
  });
}

test.each(Object.entries(vectors.smooth.ema))("ema of weight %s agrees with the recording side", (weight, wanted) => {
  expectSame(ema(values, Number(weight)), wanted);
});

test.each(Object.entries(vectors.smooth.gaussian))("gaussian of sigma %s agrees with the recording side", (sigma, wanted) => {
  expectSame(gaussian(values, Number(sigma)), wanted);
});

test("a constant stays what it is from the first point on", () => {
  const flat = new Float64Array(20).fill(3);
  for (const value of [...ema(flat, 0.99), ...gaussian(flat, 5)]) expect(value).toBeCloseTo(3, 12);
});

test("weights outside the range are refused", () => {
  expect(() => ema(values, 1)).toThrow(RangeError);
  expect(() => gaussian(values, NaN)).toThrow(RangeError);
});

test("no smoothing gives the series itself", () => {
  expect(smooth(values, { kind: "none" })).toBe(values);
});
