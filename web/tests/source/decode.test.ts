import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { expect, test } from "vitest";

import { decodeSeries } from "../../src/source/decode.ts";

// What the server's own tests hold the server to.
const GOLDEN = fileURLToPath(new URL("../../../tests/server/golden/", import.meta.url));

function golden(name = "series"): ArrayBuffer {
  const bytes = readFileSync(`${GOLDEN}${name}.bin`);
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
}

test("slices are read with their marks", () => {
  const [loss] = decodeSeries(golden()).parts;
  expect(loss!.head).toMatchObject({ run: "id-g", name: "loss", raw: false, points: 4 });
  expect(loss!.data).toEqual({
    kind: "buckets",
    firstX: Float64Array.of(0, 3),
    lastX: Float64Array.of(1, 3),
    minX: Float64Array.of(1, 3),
    maxX: Float64Array.of(0, 3),
    last: 0.25,
    mean: Float64Array.of(0.75, 0.25),
    min: Float64Array.of(0.5, 0.25),
    max: Float64Array.of(1, 0.25),
    count: Float64Array.of(2, 1),
    nonfiniteX: Float64Array.of(2),
    nonfinite: Float64Array.of(NaN),
  });
});

test("slices are read where x is no whole number and a value needs all its digits", () => {
  const [huge] = decodeSeries(golden("floats")).parts;
  expect(huge!.data).toEqual({
    kind: "buckets",
    firstX: Float64Array.of(0.5, 3),
    lastX: Float64Array.of(1.5, 3),
    minX: Float64Array.of(1.5, 3),
    maxX: Float64Array.of(0.5, 3),
    last: 7,
    mean: Float64Array.of(5e299, 7),
    min: Float64Array.of(0.125, 7),
    max: Float64Array.of(1e300, 7),
    count: Float64Array.of(2, 1),
    nonfiniteX: Float64Array.of(0.75),
    nonfinite: Float64Array.of(-Infinity),
  });
});

test("raw points are read with their times", () => {
  const answer = decodeSeries(golden());
  const acc = answer.parts[1]!;
  expect(acc.data).toEqual({ kind: "raw", x: Float64Array.of(0), y: Float64Array.of(0.25) });
  expect(acc.times).toEqual(Float64Array.of(1001));
  expect(answer.positions).toEqual({ "id-g": "id-g:loop.1.0.4" });
});

test("what is cut off or something else is refused", () => {
  expect(() => decodeSeries(golden().slice(0, -8))).toThrow("cut off");
  expect(() => decodeSeries(golden().slice(0, 100))).toThrow("cut off");
  expect(() =>
    decodeSeries(new TextEncoder().encode("<!doctype html>").buffer as ArrayBuffer),
  ).toThrow("not a body");
});
