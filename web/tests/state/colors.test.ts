import { expect, test } from "vitest";

import { ownSlot } from "../../src/chart/index.ts";
import { slotColor, slotDash } from "../../src/chart/palette.ts";
import { chosenSlots, coloringBy, withColor } from "../../src/state/colors.ts";
import type { RunRow } from "../../src/wire.ts";

function rows(...values: unknown[]): RunRow[] {
  return values.map((lr, index) => ({ id: `r${index}`, config: { lr } }) as unknown as RunRow);
}

test("runs with the same value have the same colour, in the order of the values", () => {
  const { slots, keys, isRange } = coloringBy(rows(1e-3, 3e-4, 1e-3), "lr");
  expect(isRange).toBe(false);
  expect(slots.get("r0")).toBe(slots.get("r2"));
  expect(slots.get("r1")).toBe(0);
  expect(keys.map(({ count }) => count)).toEqual([1, 2]);
});

test("three numbers have ordered colours, three names have not", () => {
  const { slots, keys, isRange } = coloringBy(rows(0.1, 0.001, 0.01), "lr");
  expect(isRange).toBe(true);
  expect(keys.map(({ text }) => text)).toEqual(["0.001", "0.01", "0.1"]);
  expect(slots.get("r1")!).toBeLessThan(slots.get("r2")!);
  expect(coloringBy(rows("adam", "sgd", "lion"), "lr").isRange).toBe(false);
});

test("of many numbers the key names some", () => {
  const { slots, keys, isRange } = coloringBy(
    rows(...Array.from({ length: 30 }, (_, index) => index / 10)),
    "lr",
  );
  expect(isRange).toBe(true);
  expect(new Set(slots.values()).size).toBe(30);
  expect(keys).toHaveLength(5);
  expect(slotColor(slots.get("r0")!, true)).toMatch(/^#[0-9a-f]{6}$/);
});

test("a colour that was chosen is kept until it is given back", () => {
  const colors = withColor(withColor([], "a", "#3D68CA"), "a", "#ff0000");
  expect(colors).toEqual(["a:ff0000"]);
  const slot = chosenSlots(colors).get("a")!;
  expect(slot).toBe(ownSlot("#ff0000"));
  expect(slotColor(slot, false)).toBe("#ff0000");
  expect(slotDash(slot)).toEqual([]);
  expect(withColor(colors, "a", null)).toEqual([]);
});
