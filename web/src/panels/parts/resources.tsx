/** How much of the machine a run uses now: bars against their limits. What was never measured has no bar. */

import type { JSX } from "preact";

import { createBars, formatBytes } from "../../chart/index.ts";
import type { Bar } from "../../chart/index.ts";
import { useCells } from "../../state/asking.ts";
import { lastOf } from "../../state/grow.ts";
import type { Page } from "../../state/page.ts";
import { Mount } from "../../ui/mount.tsx";
import type { RunDetail } from "../../wire.ts";

type Latest = (name: string) => number | null;

const WATCHED = /^(system\/(cpu_pct|ram_used|ram_total)|resources\/(cpu_pct|ram_used|ram_total|gpu_pct|vram_allocated_bytes|vram_total)|gpu\/[^/]+\/(gpu_util|dram_used|dram_free|dram_total|power|power_limit|temperature|temp_slowdown))$/;
const FULL = 0.97;
const MOST_GPUS = 8;

export function Resources({ page, detail }: { readonly page: Page; readonly detail: RunDetail }): JSX.Element | null {
  const metrics = detail.metrics.filter(({ name }) => WATCHED.test(name));
  const run = detail.row.id;
  const cells = useCells(page, metrics.map(({ name, axis }) => ({ run, name, axis, x: axis === "time" ? "wall" as const : axis, range: null, pixels: 300 })));
  const values = new Map(metrics.map(({ name, summary }, index) => {
    const data = cells[index]?.parts?.[0]?.data;
    return [name, data === undefined ? (summary?.last ?? null) : lastOf(data)];
  }));
  const bars = barsOf((name) => values.get(name) ?? null, gpusOf(metrics.map(({ name }) => name)));
  if (bars.length === 0) return null;
  return <Mount class="resources" height="auto" create={(root) => createBars(root, bars)} update={(widget) => widget.update(bars)} />;
}

function gpusOf(names: readonly string[]): readonly string[] {
  return [...new Set(names.map((name) => /^gpu\/([^/]+)\//.exec(name)?.[1]).filter((id) => id !== undefined))].sort();
}

export function barsOf(latest: Latest, gpus: readonly string[]): readonly Bar[] {
  const bars: (Bar | null)[] = [
    percentBar("CPU", latest("system/cpu_pct") ?? latest("resources/cpu_pct")),
    bytesBar("RAM", latest("system/ram_used") ?? latest("resources/ram_used"), latest("system/ram_total") ?? latest("resources/ram_total")),
  ];
  if (gpus.length === 0) {
    bars.push(percentBar("GPU", latest("resources/gpu_pct")), bytesBar("VRAM", latest("resources/vram_allocated_bytes"), latest("resources/vram_total")));
  }
  for (const id of gpus.slice(0, MOST_GPUS)) {
    const of = (name: string): number | null => latest(`gpu/${id}/${name}`);
    const used = of("dram_used");
    const free = of("dram_free");
    const label = gpus.length > 1 ? `GPU ${id}` : "GPU";
    bars.push(percentBar(label, of("gpu_util")));
    bars.push(bytesBar("· memory", used, of("dram_total") ?? (used === null || free === null ? null : used + free)));
    bars.push(limitBar("· power", of("power"), of("power_limit"), (value) => `${(value / 1000).toFixed(0)} W`));
    bars.push(limitBar("· heat", of("temperature"), of("temp_slowdown"), (value) => `${value.toFixed(0)} °C`));
  }
  return bars.filter((bar) => bar !== null);
}

function percentBar(label: string, percent: number | null): Bar | null {
  return percent === null ? null : { label, share: percent / 100, text: `${percent.toFixed(0)}%` };
}

function bytesBar(label: string, used: number | null, total: number | null): Bar | null {
  if (used === null) return null;
  if (total === null || total <= 0) return { label, share: null, text: formatBytes(used) };
  const share = used / total;
  return { label, share, text: `${formatBytes(used)} of ${formatBytes(total)}`, severity: share > FULL ? "critical" : share > 0.9 ? "warning" : "normal" };
}

function limitBar(label: string, value: number | null, limit: number | null, write: (value: number) => string): Bar | null {
  if (value === null) return null;
  if (limit === null || limit <= 0) return { label, share: null, text: write(value) };
  return { label, share: value / limit, text: `${write(value)} of ${write(limit)}`, severity: value > limit ? "critical" : "normal" };
}
