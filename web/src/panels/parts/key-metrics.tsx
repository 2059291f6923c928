/** The key metrics of a run: latest values with sparklines. */

import type { JSX } from "preact";

import { createSparkline, formatBytes, formatCount, formatDuration, formatNumber, UNKNOWN } from "../../chart/index.ts";
import type { SeriesData } from "../../chart/index.ts";
import { samplesOf } from "../../chart/series.ts";
import { useSeriesQueries } from "../../state/queries.ts";
import { extremesOf, lastOf } from "../../state/append-points.ts";
import type { Page } from "../../state/page.ts";
import { Mount } from "../../ui/mount.tsx";
import type { MetricRow, RunDetail } from "../../wire.ts";
import { formatOf } from "./lines.ts";

export interface KeyMetric {
  readonly label: string;
  readonly metric: MetricRow;
  readonly format: (value: number) => string;
}

interface Sign {
  readonly label: string;
  readonly role?: string;
  /** Names to look for where no metric has the role. */
  readonly names: readonly RegExp[];
  readonly format?: (value: number) => string;
}

const SIGNS: readonly Sign[] = [
  { label: "loss", role: "loss", names: [] },
  { label: "eval loss", role: "eval_loss", names: [] },
  { label: "accuracy", names: [/^(eval|val|test|train)[/_]acc(uracy)?$/, /^acc(uracy)?$/] },
  { label: "gradient norm", role: "norm", names: [] },
  { label: "learning rate", role: "lr", names: [] },
  { label: "throughput", role: "throughput", names: [/(tokens|samples|images|steps)_per_s(ec|econd)?$/], format: (value) => `${formatCount(value)}/s` },
  { label: "speed of light", names: [/(^|\/)sol$/, /(^|[/_])mfu$/], format: (value) => `${value.toFixed(1)}\u00a0%` },
  { label: "GPU", names: [/^gpu\/0\/gpu_util$/, /^system\/gpu_pct$/, /^resources\/gpu_pct$/], format: (value) => `${value.toFixed(0)}\u00a0%` },
];

/** The signs that a run has; where none is known, its first metrics. */
export function keyMetricsOf(detail: RunDetail): readonly KeyMetric[] {
  const found = SIGNS.flatMap(({ label, role, names, format }): KeyMetric[] => {
    const byRole = role === undefined ? undefined : detail.roles[role];
    const metric = detail.metrics.find(({ name }) => name === byRole)
      ?? names.map((pattern) => detail.metrics.find(({ name }) => pattern.test(name))).find((one) => one !== undefined);
    return metric === undefined ? [] : [{ label, metric, format: format ?? formatterOf(metric) }];
  });
  return found.length > 0 ? found : detail.metrics.slice(0, 6).map((metric) => ({ label: metric.name, metric, format: formatterOf(metric) }));
}

function formatterOf({ name, unit }: MetricRow): (value: number) => string {
  const format = formatOf(name, unit);
  if (format === "bytes") return formatBytes;
  if (format === "duration") return formatDuration;
  return formatNumber;
}

export function KeyMetrics({ page, detail }: { readonly page: Page; readonly detail: RunDetail }): JSX.Element {
  return (
    <section class="vitals" aria-label="Vital signs">
      {keyMetricsOf(detail).map((vital) => <VitalSign key={`${detail.row.id} ${vital.metric.name}`} page={page} run={detail.row.id} vital={vital} />)}
    </section>
  );
}

function VitalSign({ page, run, vital }: { readonly page: Page; readonly run: string; readonly vital: KeyMetric }): JSX.Element {
  const { metric, label, format } = vital;
  const [cell] = useSeriesQueries(page, [{ run, name: metric.name, axis: metric.axis, x: metric.axis === "time" ? "wall" : metric.axis, range: null, pixels: 300 }]);
  const part = cell?.parts?.[0];
  const last = part === undefined ? (metric.summary?.last ?? null) : lastOf(part.data);
  const { x, y } = part === undefined ? NO_POINTS : sparklinePoints(part.data);
  const slot = page.runs.slot(run);
  const best = bestOf(metric, part?.data);
  return (
    <button type="button" class="card vital" title={`${metric.name}: open its chart`} onClick={() => {
      page.view.full.value = metric.name;
      page.open("board");
    }}>
      <span class="vital-label">{label}</span>
      <span class="vital-note">{best === null ? "" : `best ${format(best)}`}</span>
      <span class={`vital-value${last === null || Number.isFinite(last) ? "" : " is-bad"}`}>{last === null ? UNKNOWN : format(last)}{metric.unit !== null && format === formatNumber && <small> {metric.unit}</small>}</span>
      <Mount class="vital-line" height={30} create={(root) => createSparkline(root, { label, x, y, slot })}
        update={(line) => line.update({ label, x, y, slot })} />
    </button>
  );
}

/** The line of a series; of slices the last point as well, because a sparkline ends at the latest value. */
function sparklinePoints(data: SeriesData): { readonly x: Float64Array; readonly y: Float64Array } {
  const { x, y } = samplesOf(data);
  return data.kind === "raw" || x.length === 0 ? { x, y } : { x: withLast(x, data.lastX.at(-1)!), y: withLast(y, data.last.at(-1)!) };
}

function withLast(values: Float64Array, last: number): Float64Array {
  const all = new Float64Array(values.length + 1);
  all.set(values);
  all[values.length] = last;
  return all;
}

/** The best value so far, where the run knows which way is better. */
function bestOf({ summary }: MetricRow, data: SeriesData | undefined): number | null {
  if (summary?.best == null) return null;
  const extremes = data === undefined ? null : extremesOf(data);
  if (extremes === null) return summary.best;
  return summary.best === summary.min ? extremes.min : extremes.max;
}

const NO_POINTS = { x: new Float64Array(0), y: new Float64Array(0) };
