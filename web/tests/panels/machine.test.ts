import { expect, test } from "vitest";

import { chartsWith, GPU_CHARTS, gpuIds, machineOf } from "../../src/panels/system-measures.ts";
import { scaled } from "../../src/panels/system.tsx";
import type { AxisName, MetricRow } from "../../src/wire.ts";

function metric(name: string, axis: AxisName = "time"): MetricRow {
  return { name, axis, ranks: [0], unit: null, goal: null, role: null, x: null, summary: null };
}

test("GPUs are found by their series, in the order of their numbers", () => {
  expect(gpuIds(["gpu/10/power", "gpu/2/power", "gpu/2/clock", "gpu/x", "system/rss"])).toEqual([
    "2",
    "10",
  ]);
});

test("memory has its total where that is told, else used and free together", () => {
  const { measures } = machineOf([
    metric("gpu/0/dram_used"),
    metric("gpu/1/dram_used"),
    metric("gpu/1/dram_total"),
  ]);
  expect(measures).toEqual([
    expect.objectContaining({
      id: "vram",
      limits: [["gpu/0/dram_used", "gpu/0/dram_free"], ["gpu/1/dram_total"]],
    }),
  ]);
});

test("without telemetry the resources of epochs stand in", () => {
  const machine = machineOf([
    metric("resources/cpu_pct", "epoch"),
    metric("resources/ram_used", "epoch"),
  ]);
  expect(machine.axis).toBe("epoch");
  expect(machine.measures.map(({ id }) => id)).toEqual(["cpu", "ram"]);
});

test("nothing measured is no measure, not zero", () => {
  expect(machineOf([metric("train/loss", "step")]).measures).toEqual([]);
});

test("a chart is there when any device has one of its fields", () => {
  const shown = chartsWith(GPU_CHARTS, ["gpu/0/", "gpu/1/"], new Set(["gpu/1/pcie_tx"]));
  expect(shown.map(({ title }) => title)).toEqual(["PCIe, per second"]);
});

test("a series in another unit is made once", () => {
  const data = { kind: "raw", x: Float64Array.of(0), y: Float64Array.of(250) } as const;
  expect(scaled(data, 1)).toBe(data);
  expect(scaled(data, 0.01)).toBe(scaled(data, 0.01));
  expect(scaled(data, 0.01)).toMatchObject({ y: Float64Array.of(2.5) });
});
