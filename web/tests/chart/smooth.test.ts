import { expect, test } from "vitest";

import { continued, ema, gaussian, mean, parseSmoothing, smooth, smoothingText, timeEma } from "../../src/chart/smooth.ts";
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

test.each(Object.entries(vectors.smooth["time-ema"]))("time-weighted average of weight %s agrees with the recording side", (weight, wanted) => {
  expectSame(timeEma(values, Float64Array.from(vectors.smooth.at), Number(weight)), wanted);
});

test.each(Object.entries(vectors.smooth.mean))("running mean over %s points agrees with the recording side", (window, wanted) => {
  expectSame(mean(values, Number(window)), wanted);
});

test("a state continues a moving average", () => {
  const flat = Float64Array.of(3, 5, 4);
  const [sum, gathered] = continued([5 + 0.9 * 3, 1.9, 1, 0], 0.9, 2, 4);
  expect(sum / gathered).toBeCloseTo(ema(flat, 0.9)[2]!, 12);
});

test("a smoothing is written for a request and read back", () => {
  expect(smoothingText({ kind: "time-ema", amount: 0.9 })).toBe("time-ema:0.9");
  expect(smoothingText({ kind: "mean", amount: 1 })).toBe("");
  expect(parseSmoothing("gaussian:12")).toEqual({ kind: "gaussian", amount: 12 });
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
  expect(smooth(values, values, { kind: "none" })).toBe(values);
});
