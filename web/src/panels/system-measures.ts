/** What of a machine is measured, in which series, and in which charts it is shown. */

import type { AxisFormat } from "../chart/index.ts";
import type { AxisName, MetricRow } from "../wire.ts";

/** A resource with a natural limit: shown as a share of it, or alone in its own unit. */
export interface Measure {
  readonly id: "cpu" | "ram" | "gpu" | "vram";
  readonly label: string;
  /** One per device. */
  readonly names: readonly string[];
  /** The series that together make each one's limit, such as used and free; none for percentages. */
  readonly limits: readonly (readonly string[])[];
  readonly isBytes: boolean;
}

export interface Machine {
  /** Telemetry goes by time; without any, what was measured at the end of each epoch. */
  readonly axis: AxisName;
  readonly measures: readonly Measure[];
  readonly gpus: readonly string[];
}

/** One chart of a host, or of each GPU. */
export interface MachineChart {
  readonly title: string;
  /** The part of the name after `system/` or `gpu/<id>/`, and what a line of it is called. */
  readonly fields: Readonly<Record<string, string>>;
  readonly format: AxisFormat;
  /** From the recorded unit to the one that is shown. */
  readonly factor: number;
  readonly always: readonly number[];
  /** The fields whose sum is the limit that the values should stay below. */
  readonly limit?: { readonly fields: readonly string[]; readonly label: string };
}

const PERCENT = { format: "percent", factor: 0.01, always: [0, 1] } as const;
const BYTES = { format: "bytes", factor: 1, always: [0] } as const;
const NUMBER = { format: "number", factor: 1, always: [] } as const;

export const GPU_CHARTS: readonly MachineChart[] = [
  { title: "Utilisation", fields: { gpu_util: "" }, ...PERCENT },
  {
    title: "Memory",
    fields: { dram_used: "" },
    ...BYTES,
    limit: { fields: ["dram_used", "dram_free"], label: "physical memory" },
  },
  {
    title: "Power, W",
    fields: { power: "" },
    ...NUMBER,
    factor: 1e-3,
    always: [0],
    limit: { fields: ["power_limit"], label: "power limit" },
  },
  {
    title: "Temperature, °C",
    fields: { temperature: "" },
    ...NUMBER,
    limit: { fields: ["temp_slowdown"], label: "slows down" },
  },
  {
    title: "Clock, MHz",
    fields: { clock: "" },
    ...NUMBER,
    limit: { fields: ["max_clock"], label: "highest" },
  },
  { title: "Memory bandwidth in use", fields: { mem_util: "" }, ...PERCENT },
  {
    title: "Units active",
    fields: { sm_active: "SM", tensor_active: "tensor", dram_active: "memory" },
    ...PERCENT,
  },
  { title: "PCIe, per second", fields: { pcie_rx: "in", pcie_tx: "out" }, ...BYTES },
  { title: "Fan", fields: { fan: "" }, ...PERCENT },
  {
    title: "Memory errors",
    fields: { ecc_corrected: "corrected", ecc_uncorrected: "not corrected" },
    ...NUMBER,
    always: [0],
  },
];

export const HOST_CHARTS: readonly MachineChart[] = [
  { title: "Processors", fields: { cpu_pct: "machine" }, ...PERCENT },
  {
    title: "Processors of this training",
    fields: { process_cpu_pct: "training", epochal_cpu_pct: "Epochal" },
    ...PERCENT,
    always: [0],
  },
  {
    title: "Memory of the machine",
    fields: { ram_used: "used" },
    ...BYTES,
    limit: { fields: ["ram_total"], label: "physical memory" },
  },
  {
    title: "Memory of this training",
    fields: { rss: "process", children_rss: "children", epochal_rss: "Epochal" },
    ...BYTES,
  },
  { title: "Disk, per second", fields: { disk_read: "read", disk_write: "written" }, ...BYTES },
  {
    title: "Disk, free",
    fields: { disk_free: "free" },
    ...BYTES,
    limit: { fields: ["disk_total"], label: "size" },
  },
  { title: "Network, per second", fields: { net_rx: "in", net_tx: "out" }, ...BYTES },
  {
    title: "Threads and children",
    fields: { threads: "threads", children: "children" },
    ...NUMBER,
    always: [0],
  },
];

export function machineOf(metrics: readonly MetricRow[]): Machine {
  const timed = new Set(metrics.filter(({ axis }) => axis === "time").map(({ name }) => name));
  const gpus = gpuIds(timed);
  const telemetry = present(timed, [
    { id: "cpu", label: "CPU", names: ["system/cpu_pct"], limits: [], isBytes: false },
    {
      id: "ram",
      label: "RAM",
      names: ["system/ram_used"],
      limits: [["system/ram_total"]],
      isBytes: true,
    },
    {
      id: "gpu",
      label: "GPU",
      names: gpus.map((gpu) => `gpu/${gpu}/gpu_util`),
      limits: [],
      isBytes: false,
    },
    {
      id: "vram",
      label: "VRAM",
      names: gpus.map((gpu) => `gpu/${gpu}/dram_used`),
      limits: gpus.map((gpu) => memoryOf(gpu, timed)),
      isBytes: true,
    },
  ]);
  if (telemetry.length > 0) return { axis: "time", measures: telemetry, gpus };
  const byEpoch = new Set(metrics.filter(({ axis }) => axis === "epoch").map(({ name }) => name));
  const measures = present(byEpoch, [
    { id: "cpu", label: "CPU", names: ["resources/cpu_pct"], limits: [], isBytes: false },
    {
      id: "ram",
      label: "RAM",
      names: ["resources/ram_used"],
      limits: [["resources/ram_total"]],
      isBytes: true,
    },
    { id: "gpu", label: "GPU", names: ["resources/gpu_pct"], limits: [], isBytes: false },
    {
      id: "vram",
      label: "VRAM",
      names: ["resources/vram_allocated_bytes"],
      limits: [["resources/vram_total"]],
      isBytes: true,
    },
  ]);
  return { axis: "epoch", measures, gpus };
}

/** Ids in `gpu/<id>/…`, numbers in their order. */
export function gpuIds(names: Iterable<string>): string[] {
  const ids = new Set<string>();
  for (const name of names) {
    const [head, id, field] = name.split("/");
    if (head === "gpu" && id !== undefined && field !== undefined) ids.add(id);
  }
  return [...ids].sort(new Intl.Collator("en", { numeric: true }).compare);
}

/** Charts that any of the devices has values for. */
export function chartsWith(
  charts: readonly MachineChart[],
  prefixes: readonly string[],
  names: ReadonlySet<string>,
): readonly MachineChart[] {
  return charts.filter(({ fields }) =>
    Object.keys(fields).some((field) => prefixes.some((prefix) => names.has(prefix + field))),
  );
}

/** Drivers tell the total, or what is free beside what is used. */
function memoryOf(gpu: string, names: ReadonlySet<string>): readonly string[] {
  const total = `gpu/${gpu}/dram_total`;
  return names.has(total) ? [total] : [`gpu/${gpu}/dram_used`, `gpu/${gpu}/dram_free`];
}

function present(names: ReadonlySet<string>, measures: readonly Measure[]): readonly Measure[] {
  return measures.flatMap((measure) => {
    const kept = measure.names
      .map((name, index) => ({ name, limit: measure.limits[index] }))
      .filter(({ name }) => names.has(name));
    if (kept.length === 0) return [];
    return [
      {
        ...measure,
        names: kept.map(({ name }) => name),
        limits: kept.map(({ limit }) => limit ?? []),
      },
    ];
  });
}
