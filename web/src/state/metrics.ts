/** The metrics of several runs as one list, and the groups that charts are shown in. */

import type { AxisName, RunDetail } from "../wire.ts";
import { flatConfig } from "./config.ts";
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
}

/** Groups of machines and internals come after what people log; they are closed at first. */
const LAST_GROUPS: readonly string[] = ["resources", "memory", "abs_max", "system", "gpu"];
const FIRST_GROUPS: readonly string[] = ["train", "eval", "val", "test"];
/** Where runs logged a metric along several axes, the first of these is its own. */
const AXES: readonly AxisName[] = ["step", "epoch", "time"];
export const PLAIN_GROUP = "metrics";

export function metricsOf(details: readonly (RunDetail | null)[]): readonly Metric[] {
  const rows = details.flatMap((detail) => detail?.metrics ?? []);
  const byName = groupBy(rows, ({ name }) => name);
  return [...byName].map(
    ([name, same]): Metric => ({
      name,
      axis: AXES.find((wanted) => same.some(({ axis }) => axis === wanted))!,
      unit: same.find(({ unit }) => unit !== null)?.unit ?? null,
      goal: same.find(({ goal }) => goal !== null)?.goal ?? null,
      role: same.find(({ role }) => role !== null)?.role ?? null,
      x: same.find(({ x }) => x !== null)?.x ?? null,
      ranks: [...new Set(same.flatMap(({ ranks }) => ranks))].sort((one, other) => one - other),
    }),
  );
}

/** The names under which programs set numbers with `run.summary` that no run logged. */
export function setNamesOf(details: readonly (RunDetail | null)[]): readonly string[] {
  const logged = new Set(
    details.flatMap((detail) => detail?.metrics ?? []).map(({ name }) => name),
  );
  const set = details
    .flatMap((detail) => flatConfig(detail?.summary ?? {}))
    .filter(([name, value]) => typeof value === "number" && !logged.has(name));
  return [...new Set(set.map(([name]) => name))].sort();
}

/** The first part of a name: `train` of `train/loss` and of `train.loss`. */
export function groupOf(name: string): string {
  const end = name.search(/[/.]/);
  return end > 0 ? name.slice(0, end) : PLAIN_GROUP;
}

/** A section of charts: metrics that share the start of their names. */
export interface MetricSection {
  /** Such as `layers/0`; tells sections apart. */
  readonly path: string;
  /** What follows the path of the section around it. */
  readonly title: string;
  /** Those that are in no section inside. */
  readonly metrics: readonly Metric[];
  readonly sections: readonly MetricSection[];
  /** All metrics, those of sections inside included. */
  readonly count: number;
}

/** Fewer metrics than this need no sections inside. */
const SPLIT_FROM = 25;

/** Sections by the first part of names; large ones have sections inside. */
export function sectionsOf(metrics: readonly Metric[]): readonly MetricSection[] {
  const groups = [...groupBy(metrics, ({ name }) => groupOf(name))];
  // A training is read from its loss on.
  const lossFirst = (members: readonly Metric[]): number =>
    members.some(({ role }) => role === "loss") ? 0 : 1;
  return groups
    .sort(
      ([one, ofOne], [other, ofOther]) =>
        lossFirst(ofOne) - lossFirst(ofOther) ||
        place(one) - place(other) ||
        (one < other ? -1 : 1),
    )
    .map(([title, members]) =>
      sectionOf(
        title,
        title,
        [...members].sort(byName),
        title === PLAIN_GROUP ? 0 : title.length + 1,
      ),
    );
}

function sectionOf(
  path: string,
  title: string,
  metrics: readonly Metric[],
  start: number,
): MetricSection {
  const flat: MetricSection = { path, title, metrics, sections: [], count: metrics.length };
  if (metrics.length < SPLIT_FROM) return flat;
  for (const separators of [/[/.]/, /[_-]|(?<=[a-z])(?=\d)/i]) {
    const inside = groupBy(metrics, ({ name }) => partAfter(name, start, separators));
    const parts = [...inside].filter(([part, members]) => part !== "" && members.length > 1);
    if (parts.length === 0) continue;
    // All of them share a longer start: that is the section.
    if (parts.length === 1 && parts[0]![1].length === metrics.length)
      return sectionOf(
        path,
        `${title}${metrics[0]!.name.slice(start - 1, start)}${parts[0]![0]}`,
        metrics,
        start + parts[0]![0].length + 1,
      );
    const named = new Set(parts.map(([part]) => part));
    const sections = parts
      .sort(([one], [other]) => NUMERIC.compare(one, other))
      .map(([part, members]) =>
        sectionOf(`${path}/${part}`, part, members, start + part.length + 1),
      );
    return {
      ...flat,
      metrics: metrics.filter(({ name }) => !named.has(partAfter(name, start, separators))),
      sections,
    };
  }
  return flat;
}

/** The part of a name from `start` to the next separator; empty where none follows. */
function partAfter(name: string, start: number, separators: RegExp): string {
  const rest = name.slice(start);
  const end = rest.search(separators);
  return end > 0 ? rest.slice(0, end) : "";
}

/** With more metrics than this on the page, sections inside others are closed at first; with many more, most sections are. */
const MANY_METRICS = 60;
const MOST_OPEN_METRICS = 200;

/** Whether a section is closed until somebody opens it. */
export function isClosedAtFirst(
  path: string,
  {
    depth,
    index,
    total,
    count,
  }: {
    readonly depth: number;
    readonly index: number;
    readonly total: number;
    readonly count: number;
  },
): boolean {
  if (LAST_GROUPS.includes(path.split("/")[0]!)) return true;
  if (depth > 0) return total > MANY_METRICS;
  return total > MOST_OPEN_METRICS && index > 0 && count > 12;
}

function place(title: string): number {
  const first = FIRST_GROUPS.indexOf(title);
  if (first >= 0) return first - FIRST_GROUPS.length;
  if (title === PLAIN_GROUP) return 0;
  // How long epochs took is looked up; it is not what a training is about.
  if (title === "epoch") return 1.5;
  return LAST_GROUPS.includes(title) ? 2 + LAST_GROUPS.indexOf(title) : 1;
}

const NUMERIC = new Intl.Collator("en", { numeric: true });

/** Roles first, in the order people read them; then by name, numbers in their order. */
function byName(one: Metric, other: Metric): number {
  const order = ["loss", "eval_loss", "norm", "lr", "throughput"];
  const rank = ({ role }: Metric): number =>
    role === null || !order.includes(role) ? order.length : order.indexOf(role);
  const isTiming = ({ name }: Metric): boolean => /(^|[/_.])duration(_s|_ms)?$/.test(name);
  return (
    rank(one) - rank(other) ||
    Number(isTiming(one)) - Number(isTiming(other)) ||
    NUMERIC.compare(one.name, other.name)
  );
}
