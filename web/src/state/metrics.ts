/** The metrics of several runs as one list, and the groups that charts are shown in. */

import type { AxisName, RunDetail } from "../wire.ts";
import { groupBy } from "./group-by.ts";

export interface Metric {
  readonly name: string;
  readonly axis: AxisName;
  readonly unit: string | null;
  readonly goal: "max" | "min" | null;
  readonly role: string | null;
  /** The metric that it is drawn along, as a run defined it; null for its own axis. */
  readonly x: string | null;
  readonly ranks: readonly number[];
  /** Whether a run has the same name along another axis: then the axis has to be told. */
  readonly isAmbiguous: boolean;
}

export interface MetricGroup {
  readonly title: string;
  readonly metrics: readonly Metric[];
}

/** Groups of machines and internals come after what people log; they are closed at first. */
const LAST_GROUPS: readonly string[] = ["resources", "memory", "abs_max", "system", "gpu"];
const FIRST_GROUPS: readonly string[] = ["train", "eval", "val", "test"];
export const PLAIN_GROUP = "metrics";

export function metricsOf(details: readonly (RunDetail | null)[]): readonly Metric[] {
  const rows = details.flatMap((detail) => detail?.metrics ?? []);
  const byName = groupBy(rows, ({ name }) => name);
  return [...byName].flatMap(([name, ofName]) => {
    const byAxis = groupBy(ofName, ({ axis }) => axis);
    return [...byAxis.values()].map((same): Metric => ({
      name,
      axis: same[0]!.axis,
      unit: same.find(({ unit }) => unit !== null)?.unit ?? null,
      goal: same.find(({ goal }) => goal !== null)?.goal ?? null,
      role: same.find(({ role }) => role !== null)?.role ?? null,
      x: same.find(({ x }) => x !== null)?.x ?? null,
      ranks: [...new Set(same.flatMap(({ ranks }) => ranks))].sort((one, other) => one - other),
      isAmbiguous: byAxis.size > 1,
    }));
  });
}

/** The first part of a name: `train` of `train/loss` and of `train.loss`. */
export function groupOf(name: string): string {
  const end = name.search(/[/.]/);
  return end > 0 ? name.slice(0, end) : PLAIN_GROUP;
}

export function groupsOf(metrics: readonly Metric[]): readonly MetricGroup[] {
  const groups = [...groupBy(metrics, ({ name }) => groupOf(name))].map(([title, members]) => ({ title, metrics: [...members].sort(byName) }));
  return groups.sort((one, other) => place(one.title) - place(other.title) || (one.title < other.title ? -1 : 1));
}

export function isLastGroup(title: string): boolean {
  return LAST_GROUPS.includes(title);
}

function place(title: string): number {
  const first = FIRST_GROUPS.indexOf(title);
  if (first >= 0) return first - FIRST_GROUPS.length;
  if (title === PLAIN_GROUP) return 0;
  return 1 + LAST_GROUPS.indexOf(title) + (LAST_GROUPS.includes(title) ? 1 : 0);
}

const NUMERIC = new Intl.Collator("en", { numeric: true });

/** Roles first, in the order people read them; then by name, numbers in their order. */
function byName(one: Metric, other: Metric): number {
  const order = ["loss", "eval_loss", "norm", "lr", "throughput"];
  const rank = ({ role }: Metric): number => (role === null || !order.includes(role) ? order.length : order.indexOf(role));
  return rank(one) - rank(other) || NUMERIC.compare(one.name, other.name);
}
