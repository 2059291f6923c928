import { expect, test } from "vitest";

import { chosenPair, endText, restText } from "../../src/panels/compare-why.tsx";
import type { RunRow, Side, Why } from "../../src/wire.ts";

const ROWS = ["a", "b", "c"].map((id) => ({ id }) as RunRow);

test("the run in focus is compared with the best one until others are chosen", () => {
  expect(chosenPair("", "", ROWS, "b", "c")).toEqual(["b", "c"]);
  expect(chosenPair("c", "", ROWS, "b", "c")).toEqual(["c", ""]);
  expect(chosenPair("a", "c", ROWS, "b", null)).toEqual(["a", "c"]);
  expect(chosenPair("gone", "group", ROWS, "b", "c")).toEqual(["b", ""]);
  expect(chosenPair("", "", [], undefined, null)).toEqual(["", ""]);
});

test("a mean of the last points is called so", () => {
  expect(endText({ points: 150, at: 2999 } as Side, "step")).toBe(
    ", the mean of the last 150 points up to step 2,999",
  );
  expect(endText({ points: 1, at: 99 } as Side, "step")).toBe(" at step 99");
});

test("what is equal and what is not recorded is said", () => {
  const found = { equal: ["code"], unknown: ["data"], noise: 0.5 } as unknown as Why;
  expect(restText(found)).toBe("A gap up to 0.5000 is noise. Equal: code. Not compared: data.");
});
