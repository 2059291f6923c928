import { expect, test } from "vitest";

import { layerTitle } from "../../src/panels/experts.tsx";
import { LOSSES, lostTime, readingIn } from "../../src/panels/parts/step-phases.ts";
import { segmentsOf } from "../../src/panels/parts/time-of-steps.tsx";
import { meanPhases, phasesOf } from "../../src/panels/parts/step-phases.ts";
import type { StepPhases } from "../../src/panels/parts/step-phases.ts";
import cases from "./lost-time.json" with { type: "json" };

const NOTHING_READ = { clockMhz: null, util: null, peakClockMhz: null };

function phases(record: Record<string, unknown>, t: number | null = null): StepPhases {
  return phasesOf({ step: 9, t, record: { steps: 10, ...record } })!;
}

test("a step's time is shared out as the recording side does it", () => {
  for (const { record, clock, util, peak, shares } of cases) {
    const lost = lostTime(phases(record), { clockMhz: clock, util, peakClockMhz: peak })!;
    lost.forEach((ms, index) => expect((100 * ms) / record.wall_ms).toBeCloseTo(shares[index]!, 6));
  }
});

test("losses and what is useful are the whole step", () => {
  const lost = lostTime(
    phases({ wall_ms: 50, ideal_ms: 10, m: { "phase/data": 5, "phase/forward": 30 } }),
    NOTHING_READ,
  )!;
  expect(lost.reduce((sum, ms) => sum + ms, 0)).toBeCloseTo(50);
  expect(Object.fromEntries(LOSSES.map(([name], index) => [name, lost[index]]))).toMatchObject({
    useful: 10,
    "input wait": 5,
    kernels: 20,
    other: 15,
  });
});

test("without the speed of light nothing is said to be lost", () => {
  expect(lostTime(phases({ wall_ms: 50, m: { "phase/data": 5 } }), NOTHING_READ)).toBeNull();
});

test("a mean of stretches keeps what explains it, and says when it was", () => {
  const one = phases({ wall_ms: 100, ideal_ms: 40, host_bound: 0.5, m: { "phase/data": 5 } }, 101);
  const other = phases(
    { steps: 30, wall_ms: 200, ideal_ms: 80, host_bound: 0.1, m: { "phase/data": 5 } },
    107,
  );
  expect(one).toMatchObject({ from: 100, to: 101 });
  expect(meanPhases([one, other])).toMatchObject({
    wallMs: 175,
    idealMs: 70,
    hostBound: 0.2,
    from: 100,
    to: 107,
  });
  expect(meanPhases([one, { ...other, idealMs: null }])!.idealMs).toBeNull();
});

test("a reading is the mean of a stretch, else the one before it", () => {
  const data = {
    kind: "raw",
    x: Float64Array.of(1, 2, 3, 9),
    y: Float64Array.of(10, 20, NaN, 90),
  } as const;
  expect(readingIn(data, 1, 2)).toBe(15);
  expect(readingIn(data, 4, 5)).toBe(20);
  expect(readingIn(data, 0, 0.5)).toBeNull();
  expect(readingIn(undefined, 0, 1)).toBeNull();
});

test("parts that only other stretches have are named all the same", () => {
  const parts = [
    { label: "data", slot: 1 },
    { label: "save", slot: 7 },
    { label: "never", slot: 8 },
  ];
  const shown = segmentsOf(
    parts,
    [
      [1, 3, 0],
      [4, 0, 0],
    ],
    1,
  );
  expect(shown.map(({ label, text }) => [label, text])).toEqual([
    ["data", "4.0 ms, 100\u00a0%"],
    ["save", "none here"],
  ]);
});

test("a layer that is only numbered is called one", () => {
  expect(layerTitle("1")).toBe("layer 1");
  expect(layerTitle("h.1.mlp")).toBe("h.1.mlp");
});
