/** How much of a machine a run uses now: bars against their limits, and as of when. What was never measured has no bar. */

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";

import { createBars, formatBytes, formatWallClock, formatWhole } from "../../chart/index.ts";
import type { Bar } from "../../chart/index.ts";
import { useSeriesQueries } from "../../state/queries.ts";
import { endOf, lastOf } from "../../state/append-points.ts";
import type { Page } from "../../state/page.ts";
import { Mount } from "../../ui/mount.tsx";
import type { AxisName, Machine, RunDetail } from "../../wire.ts";
import { gpuIds } from "../system-measures.ts";

export type Latest = (name: string) => number | null;

export interface MachineNow {
  /** Empty where there is only one. */
  readonly title: string;
  readonly bars: readonly Bar[];
}

export interface Now {
  readonly machines: readonly MachineNow[];
  /** Such as `as of 12:03:04`; empty when nothing is known. */
  readonly note: string;
  /** What the note means. */
  readonly meaning: string;
}

const WATCHED =
  /^(system\/(cpu_pct|ram_used|ram_total)|resources\/(cpu_pct|ram_used|ram_total|gpu_pct|vram_allocated_bytes|vram_total)|gpu\/[^/]+\/(gpu_util|dram_used|dram_free|dram_total|power|power_limit|temperature|temp_slowdown))$/;
/** What does not change while a run lasts, so that an old word on it holds. */
const STEADY = /_(total|limit|slowdown)$/;
const FULL = 0.97;

/** The readings of the moment while there are any, else what was recorded last. */
export function useNow(page: Page, detail: RunDetail, mostGpus = Infinity): Now {
  useEffect(() => page.readings.watch(), []);
  const metrics = detail.metrics.filter(({ name }) => WATCHED.test(name));
  const run = detail.row.id;
  const cells = useSeriesQueries(
    page,
    metrics.map(({ name, axis }) => ({
      run,
      name,
      axis,
      x: axis === "time" ? ("wall" as const) : axis,
      range: null,
      pixels: 300,
    })),
  );
  const known = metrics.map(({ name, axis, summary }, index) => {
    const data = cells[index]?.parts?.[0]?.data;
    return data === undefined
      ? { name, axis, value: summary?.last ?? null, end: summary?.last_x ?? -Infinity }
      : { name, axis, value: lastOf(data), end: endOf(data) };
  });
  const latest: Latest = (wanted) => known.find(({ name }) => name === wanted)?.value ?? null;
  const live = page.readings.of(run);
  if (live.length > 0) return liveNow(live, latest, { now: page.now.peek(), mostGpus });
  const endOn = (wanted: AxisName): number =>
    Math.max(...known.map(({ axis, end }) => (axis === wanted ? end : -Infinity)));
  const [t, epoch] = [endOn("time"), endOn("epoch")];
  return {
    machines: [
      { title: "", bars: barsOf(latest, gpuIds(known.map(({ name }) => name)).slice(0, mostGpus)) },
    ],
    note:
      t > 0
        ? `recorded ${clockText(t, page.now.peek())}`
        : epoch >= 0
          ? `after epoch ${formatWhole(epoch)}`
          : "",
    meaning: "The newest record: means of several seconds.",
  };
}

export function liveNow(
  live: readonly Machine[],
  recorded: Latest,
  { now, mostGpus }: { readonly now: number; readonly mostGpus: number },
): Now {
  return {
    machines: live.map((machine) => ({
      title: live.length > 1 ? `${machine.node}, rank ${machine.rank}` : "",
      bars: barsOf(
        latestOf(machine, recorded),
        gpuIds(machine.gpus.map(({ id }) => `gpu/${id}/`)).slice(0, mostGpus),
      ),
    })),
    // Of several machines, what was read last of all is true of each.
    note: `as of ${clockText(Math.min(...live.map(({ t }) => t)), now)}`,
    meaning: "Live readings: GPUs every second, the rest every five.",
  };
}

/** What was read of a machine; limits that it did not tell are those that were recorded. */
function latestOf({ gpus, system }: Machine, recorded: Latest): Latest {
  return (name) => {
    const [head, id, field] = name.split("/");
    const value =
      head === "gpu" ? gpus.find((gpu) => String(gpu.id) === id)?.[field!] : system[id!];
    return typeof value === "number" ? value : STEADY.test(name) ? recorded(name) : null;
  };
}

/** The time of day, with the date unless it is today's. */
function clockText(t: number, now: number): string {
  const text = formatWallClock(t);
  const [today] = formatWallClock(now).split(" ");
  return text.startsWith(today!) ? text.slice(today!.length + 1) : text;
}

export function AsOf({ now: { note, meaning } }: { readonly now: Now }): JSX.Element {
  return (
    <span class="card-note as-of" title={meaning}>
      {note}
    </span>
  );
}

export function ResourceBars({ bars, title }: MachineNow): JSX.Element {
  return (
    <>
      {title !== "" && <h4>{title}</h4>}
      <Mount
        height="auto"
        create={(root) => createBars(root, bars)}
        update={(widget) => widget.update(bars)}
      />
    </>
  );
}

export function barsOf(latest: Latest, gpus: readonly string[]): readonly Bar[] {
  const bars: (Bar | null)[] = [
    percentBar("CPU", latest("system/cpu_pct") ?? latest("resources/cpu_pct")),
    bytesBar(
      "RAM",
      latest("system/ram_used") ?? latest("resources/ram_used"),
      latest("system/ram_total") ?? latest("resources/ram_total"),
    ),
  ];
  if (gpus.length === 0) {
    bars.push(
      percentBar("GPU", latest("resources/gpu_pct")),
      bytesBar("VRAM", latest("resources/vram_allocated_bytes"), latest("resources/vram_total")),
    );
  }
  for (const id of gpus) {
    const of = (name: string): number | null => latest(`gpu/${id}/${name}`);
    const used = of("dram_used");
    const free = of("dram_free");
    bars.push(percentBar(gpus.length > 1 ? `GPU ${id}` : "GPU", of("gpu_util")));
    bars.push(
      bytesBar(
        "· memory",
        used,
        of("dram_total") ?? (used === null || free === null ? null : used + free),
      ),
    );
    bars.push(
      limitBar(
        "· power",
        of("power"),
        of("power_limit"),
        (value) => `${(value / 1000).toFixed(0)} W`,
      ),
    );
    bars.push(
      limitBar(
        "· heat",
        of("temperature"),
        of("temp_slowdown"),
        (value) => `${value.toFixed(0)} °C`,
      ),
    );
  }
  return bars.filter((bar) => bar !== null);
}

function percentBar(label: string, percent: number | null): Bar | null {
  return percent === null
    ? null
    : { label, share: percent / 100, text: `${percent.toFixed(0)}\u00a0%` };
}

function bytesBar(label: string, used: number | null, total: number | null): Bar | null {
  // Only memory runs out; a busy processor is good news.
  const bar = limitBar(label, used, total, formatBytes);
  return bar === null || bar.share === null
    ? bar
    : { ...bar, severity: bar.share > FULL ? "critical" : bar.share > 0.9 ? "warning" : "normal" };
}

function limitBar(
  label: string,
  value: number | null,
  limit: number | null,
  write: (value: number) => string,
): Bar | null {
  if (value === null) return null;
  if (limit === null || limit <= 0) return { label, share: null, text: write(value) };
  return {
    label,
    share: value / limit,
    text: `${write(value)} of ${write(limit)}`,
    severity: value > limit ? "critical" : "normal",
  };
}
