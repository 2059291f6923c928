import { expect, test } from "vitest";

import { laterPosition, positionsOf, comparePosition } from "../../src/source/position.ts";

test("the id of an event holds the position of each run", () => {
  expect(positionsOf("a:loop.1.0.4;b%3Bc:loop.1.0.1,rank-0001.1.0.7")).toEqual(
    new Map([
      ["a", "a:loop.1.0.4"],
      ["b;c", "b%3Bc:loop.1.0.1,rank-0001.1.0.7"],
    ]),
  );
  expect(positionsOf("")).toEqual(new Map());
});

test.each([
  ["a:loop.1.0.9", "a:loop.1.0.5", "a:loop.1.0.8", "known"],
  ["a:loop.1.0.8", "a:loop.1.0.5", "a:loop.1.0.8", "known"],
  ["a:loop.1.0.5", "a:loop.1.0.5", "a:loop.1.0.8", "next"],
  ["a:loop.1.0.6", "a:loop.1.0.5", "a:loop.1.0.8", "overlapping"],
  ["a:loop.1.0.4", "a:loop.1.0.5", "a:loop.1.0.8", "beyond"],
  ["a:loop.1.0.5", null, "a:loop.1.0.8", "overlapping"],
  ["a:", "a:", "a:loop.1.0.2", "next"],
  ["a:loop.1.0.9", "a:loop.1.0.9", "a:loop.1.1.0", "next"],
  ["a:loop.1.0.5", "a:loop.1.0.5", "a:loop.1.0.5,rank-0001.1.0.0", "next"],
  ["a:loop.1.0.5", "a:loop.1.0.5,rank-0001.1.0.3", "a:loop.1.0.7,rank-0001.1.0.3", "beyond"],
] as const)("at %s, news from %s to %s are %s", (at, from, to, expected) => {
  expect(comparePosition(at, from, to)).toBe(expected);
});

test("the farther of two positions is taken writer by writer", () => {
  expect(laterPosition("a:loop.1.0.9,x.1.0.1", "a:loop.1.0.4,x.1.1.0,y.1.0.0")).toBe(
    "a:loop.1.0.9,x.1.1.0,y.1.0.0",
  );
});
