import { expect, test } from "vitest";

import { assignSlots, PALETTE, slotDash, slotSample } from "../../src/chart/palette.ts";

type Rgb = readonly [number, number, number];

// Machado, Oliveira and Fernandes 2009, severity 1, on linear light.
const SIGHTS: Readonly<Record<string, readonly Rgb[]>> = {
  normal: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};

function linear(hex: string): Rgb {
  const part = (at: number): number => {
    const value = parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return [part(1), part(3), part(5)];
}

function seen(rgb: Rgb, sight: readonly Rgb[]): Rgb {
  const part = (row: Rgb): number =>
    Math.max(0, Math.min(1, row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2]));
  return [part(sight[0]!), part(sight[1]!), part(sight[2]!)];
}

function oklab([r, g, b]: Rgb): Rgb {
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function contrast(one: string, other: string): number {
  const light = (hex: string): number => {
    const [r, g, b] = linear(hex);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
  return (high! + 0.05) / (low! + 0.05);
}

test.each([
  ["light", "#ffffff", 3],
  ["dark", "#15181d", 4],
] as const)("every %s colour stands out from its page", (theme, page, least) => {
  for (const shade of PALETTE) expect(contrast(shade[theme], page)).toBeGreaterThanOrEqual(least);
});

test.each(["light", "dark"] as const)(
  "any two %s colours differ in every kind of sight",
  (theme) => {
    for (const [name, sight] of Object.entries(SIGHTS)) {
      const labs = PALETTE.map((shade) => oklab(seen(linear(shade[theme]), sight)));
      labs.forEach((one, index) => {
        for (const other of labs.slice(index + 1)) {
          const distance = Math.hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2]);
          // 0.02 is about the smallest difference seen side by side.
          expect(distance, name).toBeGreaterThan(0.055);
        }
      });
    }
  },
);

test("up to the palette's size no two ids share a colour", () => {
  const ids = Array.from({ length: PALETTE.length }, (_, index) => `run-${index}`);
  expect(new Set(assignSlots(ids).values())).toEqual(new Set(PALETTE.keys()));
});

test("further ids repeat colours with a dash", () => {
  const slots = assignSlots(Array.from({ length: 30 }, (_, index) => `run-${index}`));
  expect(new Set(slots.values()).size).toBe(30);
  expect([...slots.values()].filter((slot) => slotDash(slot).length > 0)).toHaveLength(18);
});

test("a sample of a dashed line has gaps, so that colours that come again can be told apart", () => {
  const samples = Array.from({ length: 36 }, (_, slot) => slotSample(slot));
  expect(new Set(samples).size).toBe(36);
  expect(samples[0]).not.toContain("gradient");
  expect(samples[12]).toContain("transparent");
});

test("each id has the colour farthest from those in use, and keeps what it had", () => {
  expect([...assignSlots(["a", "b"]).values()]).toEqual([0, 1]);
  const before = assignSlots(["a", "b", "c"]);
  const after = assignSlots(["z", "c", "y", "a"], before);
  expect([after.get("a"), after.get("c")]).toEqual([before.get("a"), before.get("c")]);
  expect(new Set(after.values()).size).toBe(4);
});

test.each(["light", "dark"] as const)(
  "few %s colours are far from each other in normal sight",
  (theme) => {
    const labs = [...assignSlots(["a", "b", "c", "d"]).values()].map((slot) =>
      oklab(linear(PALETTE[slot]![theme])),
    );
    labs.forEach((one, index) => {
      for (const other of labs.slice(index + 1))
        expect(Math.hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2])).toBeGreaterThan(
          0.18,
        );
    });
  },
);
