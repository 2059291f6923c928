import { expect, test } from "vitest";

import {
  expertLoadOf,
  layerSummaries,
  overSteps,
  relativeLoad,
} from "../../src/panels/experts.tsx";
import { flopText, speedOf } from "../../src/panels/parts/speed.ts";
import { msText, thinned } from "../../src/panels/parts/time-of-steps.tsx";
import {
  lanesOf,
  reasonText,
  spanOf,
  stretchOf,
  timelineTable,
} from "../../src/panels/parts/timeline.tsx";
import {
  meanPhases,
  phaseNames,
  phasesOf,
  phaseValues,
} from "../../src/panels/parts/step-phases.ts";
import type { EntryRow } from "../../src/wire.ts";

function entry(record: Record<string, unknown>, step: number | null = null, rank = 0): EntryRow {
  return {
    position: "loop.1.0.1",
    kind: String(record.log),
    rank,
    t: null,
    step,
    name: null,
    record,
  };
}

const LOAD = expertLoadOf(
  entry(
    {
      layers: ["a", "b"],
      load: [
        [0.1, 0.2, 0.7],
        [0.5, 0.5],
      ],
      top_k: 2,
    },
    9,
  ),
)!;

test("layers of different widths stand in one table", () => {
  expect(LOAD).toMatchObject({ step: 9, numExperts: 3, topK: 2, layers: ["a", "b"] });
  expect([...LOAD.shares]).toEqual([0.1, 0.2, 0.7, 0.5, 0.5, NaN]);
  expect([...relativeLoad(LOAD)].map((value) => Number(value.toFixed(6)))).toEqual([
    0.3,
    0.6,
    2.1,
    1,
    1,
    NaN,
  ]);
});

test("a layer is summed up by its busiest and its idle experts", () => {
  expect(layerSummaries(LOAD)[1]).toEqual({
    layer: "b",
    numExperts: 2,
    imbalance: 1,
    busiest: 0,
    numIdle: 0,
  });
  const skewed = expertLoadOf(entry({ layers: ["a"], load: [[0.98, 0.01, 0.01]] }, 0))!;
  expect(layerSummaries(skewed)[0]).toMatchObject({ busiest: 0, numIdle: 2 });
});

test("one layer over steps has nan where it was not there", () => {
  const other = expertLoadOf(entry({ layers: ["b"], load: [[1, 0]] }, 10))!;
  expect(overSteps([LOAD, other], "b")).toEqual({
    numExperts: 3,
    values: Float64Array.of(1, 2, 1, 0, NaN, NaN),
  });
});

test("what is no record of experts is left out", () => {
  expect(expertLoadOf(entry({ layers: ["a"], load: [[0.5]] }))).toBeNull();
  expect(expertLoadOf(entry({ layers: [], load: [] }, 1))).toBeNull();
  expect(expertLoadOf(entry({ layers: "a", load: 3 }, 1))).toBeNull();
});

const PHASES = phasesOf(
  entry(
    { steps: 2, wall_ms: 10, m: { "phase/backward": 5, "phase/zebra": 1, "phase/data": 2 } },
    9,
  ),
)!;

test("phases stand in the order of a step, others after them, and the rest of the step last", () => {
  const names = phaseNames([PHASES]);
  expect(names).toEqual(["data", "backward", "zebra", "other"]);
  expect(phaseValues(PHASES, names)).toEqual([2, 5, 1, 2]);
});

test("a mean of stretches weighs them by their steps", () => {
  const later = phasesOf(entry({ steps: 6, wall_ms: 18, m: { "phase/data": 6 } }, 15))!;
  const mean = meanPhases([PHASES, later])!;
  expect(mean).toMatchObject({ step: 15, steps: 8, wallMs: 16 });
  expect(mean.ms.get("data")).toBe(5);
  expect(meanPhases([])).toBeNull();
});

test("many stretches become few columns that cover the same steps", () => {
  const many = Array.from({ length: 1000 }, (_, index) => ({ ...PHASES, step: 2 * index + 1 }));
  const few = thinned(many);
  expect(few.length).toBeLessThanOrEqual(120);
  expect(few.reduce((sum, { steps }) => sum + steps, 0)).toBe(2000);
});

const STRETCH = stretchOf(
  entry({
    start: 100,
    period_s: 0.5,
    samples: { "gpu/0/util": [90, null, 0], cpu: [50] },
    gaps: [{ device: "gpu/0", start: 100.5, end: 101.5, cause: "data" }, 7],
    reason: "slow",
  }),
)!;

test("a slow stretch says what stood still and why", () => {
  expect(STRETCH).toMatchObject({ start: 100, end: 101.5, reason: "slow" });
  expect([...STRETCH.tracks[0]!.values]).toEqual([90, NaN, 0]);
  expect(reasonText(STRETCH)).toBe("slow: GPU 0 idle 1.0 s (data).");
});

test("lanes are epochs, spans, devices and their gaps, from the start of the run", () => {
  const span = spanOf(entry({ name: "save", start: 99, duration_ms: 500 }, 4, 1))!;
  const marks = [{ kind: "epoch", label: "epoch 1", x: 98, gpu: null }] as const;
  const lanes = lanesOf({ spans: [span], stretches: [STRETCH], marks, origin: 90, created: 90 });
  expect(lanes.map(({ name }) => name)).toEqual([
    "epochs",
    "save · rank 1",
    "GPU 0",
    "CPU",
    "GPU 0 idle",
  ]);
  expect(lanes[0]!.spans).toMatchObject([{ from: 0, to: 8, label: "epoch 1" }]);
  expect(lanes[1]!.spans).toMatchObject([{ from: 9, to: 9.5, label: "save · after step 4" }]);
});

test("files have every record, and names that need quotes have them", () => {
  const span = spanOf(entry({ name: 'a,"b"', start: 1.5, duration_ms: 250 }))!;
  expect(timelineTable([span])).toBe(
    'lane,name,start,end,duration_ms,step\r\n"a,""b""","a,""b""",1.5,1.75,250,\r\n',
  );
});

test("a speed of light has the peak in use beside the one that was measured", () => {
  const reached = { throughput: 100, sol: 40, mfu: null };
  const speed = speedOf(
    {
      blocks: 2e9,
      lm_head: 1e9,
      tps: 250,
      bf16_peak: 1000,
      tf32_peak: 500,
      measured_peak: 800,
      dtype: "bf16",
      device: "GPU",
      world_size: 4,
    },
    reached,
  );
  expect(speed).toMatchObject({
    possible: 250,
    device: "4 × GPU",
    measured: { tflops: 800, spec: 1000, share: 0.8 },
  });
  expect(speed.peaks.map(({ label }) => label)).toEqual([
    "bf16, in use",
    "tf32",
    "bf16, measured here",
  ]);
  expect(speed.work.map(({ label }) => label)).toEqual(["blocks", "output layer"]);
  expect(speedOf({}, reached)).toMatchObject({
    possible: null,
    measured: null,
    peaks: [],
    work: [],
  });
});

test("work is counted in units of its own, and times of phases have one precision", () => {
  expect([950, 23.6e9, 1.5e12].map(flopText)).toEqual(["950 FLOP", "23.6 GFLOP", "1.5 TFLOP"]);
  expect([281.6, 41.82, 3, 0.012].map(msText)).toEqual([
    "281.6 ms",
    "41.8 ms",
    "3.0 ms",
    "0.0120 ms",
  ]);
});
