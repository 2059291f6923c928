import { expect, test } from "vitest";

import { formatWallClock } from "../../src/chart/index.ts";
import { barsOf, liveNow } from "../../src/panels/parts/resources.tsx";
import type { Machine } from "../../src/wire.ts";

const NOW = 1_800_000_000;
const OPTIONS = { now: NOW, mostGpus: 8 };
const GPU = { id: 0, gpu_util: 93, dram_used: 3 * 2 ** 30, power: 310_000, throttle: "power cap" };

function machine(fields: Partial<Machine> = {}): Machine {
  return { node: "here", rank: 0, t: NOW - 1, gpus: [GPU], system: { cpu_pct: 12.4 }, ...fields };
}

test("a machine's readings are bars", () => {
  const { machines } = liveNow([machine()], () => null, OPTIONS);
  expect(machines).toEqual([
    {
      title: "",
      bars: [
        { label: "CPU", share: 0.124, text: "12\u00a0%" },
        { label: "GPU", share: 0.93, text: "93\u00a0%" },
        { label: "· memory", share: null, text: "3.0 GiB" },
        { label: "· power", share: null, text: "310 W" },
      ],
    },
  ]);
});

test("limits may be those that were recorded, and nothing else", () => {
  const recorded = (name: string): number | null =>
    ({ "gpu/0/dram_total": 4 * 2 ** 30, "gpu/0/temperature": 99, "system/ram_used": 7 })[name] ??
    null;
  const [first] = liveNow([machine()], recorded, OPTIONS).machines;
  expect(first!.bars.map(({ text }) => text)).toEqual([
    "12\u00a0%",
    "93\u00a0%",
    "3.0 GiB of 4.0 GiB",
    "310 W",
  ]);
});

test("the time is that of the machine heard of longest ago, with its date unless that is today's", () => {
  const [date, clock] = formatWallClock(NOW - 3).split(" ");
  expect(liveNow([machine(), machine({ t: NOW - 3 })], () => null, OPTIONS).note).toBe(
    `as of ${clock}`,
  );
  const later = { ...OPTIONS, now: NOW + 86_400 * 2 };
  expect(liveNow([machine({ t: NOW - 3 })], () => null, later).note).toBe(`as of ${date} ${clock}`);
});

test("several machines have their names", () => {
  const both = liveNow(
    [machine(), machine({ node: "there", rank: 8 })],
    () => null,
    OPTIONS,
  ).machines;
  expect(both.map(({ title }) => title)).toEqual(["here, rank 0", "there, rank 8"]);
});

test("memory that runs out is told, a busy processor is not", () => {
  const values = {
    "system/cpu_pct": 100,
    "system/ram_used": 98,
    "system/ram_total": 100,
  } as Record<string, number>;
  const bars = barsOf((name) => values[name] ?? null, []);
  expect(bars.map(({ severity }) => severity)).toEqual([undefined, "critical"]);
});
