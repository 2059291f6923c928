/** The columns in which runs are compared: facts, config keys and summaries of metrics. */

import { formatDuration, formatNumber, formatWallClock, formatWhole } from "../chart/index.ts";
import { configValue, shortNumber, valueText } from "../state/config.ts";
import { fieldOf } from "../state/run-pages.ts";
import type { RunRow, MetricSummary } from "../wire.ts";

export type Statistic = "last" | "best" | "min" | "max" | "mean";
export const STATISTICS: readonly Statistic[] = ["last", "best", "min", "max", "mean"];

export type Value = number | string | null;

export interface Column {
  /** Part of the address: `fact:step`, `config:optimizer.lr`, `metric:eval/loss`. */
  readonly id: string;
  readonly title: string;
  readonly kind: "fact" | "config" | "metric";
  valueIn(row: RunRow): Value;
  textOf(row: RunRow): string;
  /** Every digit, for the pointer. */
  fullOf?(row: RunRow): string;
}

const FACTS: Readonly<
  Record<
    string,
    {
      readonly title: string;
      readonly valueIn: (row: RunRow) => Value;
      readonly write?: (value: number) => string;
    }
  >
> = {
  step: { title: "last step", valueIn: ({ step }) => step, write: formatWhole },
  duration: {
    title: "time",
    write: formatDuration,
    valueIn: ({ created, updated }) =>
      created === null || updated === null ? null : Math.max(0, updated - created),
  },
  status: { title: "status", valueIn: ({ status }) => status.text },
  notes: { title: "note", valueIn: ({ notes }) => notes },
  tags: { title: "tags", valueIn: ({ tags }) => tags.join(", ") || null },
  project: { title: "project", valueIn: ({ project }) => project },
  created: {
    title: "started",
    valueIn: ({ created }) => created,
    write: (value) => formatWallClock(value).slice(0, 16),
  },
  epoch: { title: "epoch", valueIn: ({ epoch }) => epoch, write: formatWhole },
  attempts: { title: "attempts", valueIn: ({ attempts }) => attempts, write: formatWhole },
  group: { title: "group", valueIn: ({ group }) => group },
  job_type: { title: "job type", valueIn: ({ job_type }) => job_type },
  owner: { title: "owner", valueIn: ({ owner }) => owner },
};
export const FACT_IDS: readonly string[] = Object.keys(FACTS).map((name) => `fact:${name}`);
/** The facts of the table, unless others are chosen. */
export const FIRST_FACTS = FACT_IDS.slice(0, 5);
/** The loss of each run, whatever its name is. */
export const ROLES = [
  { role: "eval_loss", id: "metric:role:eval_loss", title: "eval loss of each run" },
  { role: "loss", id: "metric:role:loss", title: "loss of each run" },
];

/** Summaries by run and metric; they come later than the rows. */
export type Summaries = ReadonlyMap<string, Readonly<Record<string, MetricSummary>>>;

export function columnOf(
  id: string,
  { summaries, statistic }: { readonly summaries: Summaries; readonly statistic: Statistic },
): Column | null {
  const colon = id.indexOf(":");
  const [kind, name] = [id.slice(0, colon), id.slice(colon + 1)];
  if (kind === "fact") {
    const fact = FACTS[name];
    if (fact === undefined) return null;
    const { title, valueIn, write } = fact;
    return { id, title, kind, valueIn, textOf: (row) => valueAsText(valueIn(row), write) };
  }
  if (kind === "config") {
    const valueIn = (row: RunRow): Value => plainValue(configValue(row.config, name));
    return {
      id,
      title: name,
      kind,
      valueIn,
      textOf: (row) => valueAsText(valueIn(row), shortNumber),
      fullOf: (row) => valueAsText(valueIn(row), String),
    };
  }
  if (kind !== "metric") return null;
  const valueIn = (row: RunRow): Value => statisticOf(summaries.get(row.id)?.[name], statistic);
  const title = `${ROLES.find((role) => role.id === id)?.title ?? name}${statistic === "last" ? "" : ` ${statistic}`}`;
  return {
    id,
    title,
    kind,
    valueIn,
    textOf: (row) => valueAsText(valueIn(row), formatNumber),
    fullOf: (row) => valueAsText(valueIn(row), String),
  };
}

export function statisticOf(summary: MetricSummary | undefined, statistic: Statistic): Value {
  if (summary === undefined) return null;
  if (statistic === "last") return summary.last ?? summary.last_nonfinite;
  // What is better is not known of every metric; then this is its last value.
  if (statistic === "best") return summary.best ?? summary.last ?? summary.last_nonfinite;
  return summary[statistic];
}

/** Keys whose values are not the same in all rows; those that most rows have go first. */
export function differingKeys(keys: readonly string[], rows: readonly RunRow[]): readonly string[] {
  const differing = keys
    .map((key) => {
      const values = rows.map(({ config }) => configValue(config, key));
      const set = values.filter((value) => value !== undefined);
      return {
        key,
        numSet: set.length,
        numSame: new Set(set.map((value) => JSON.stringify(value))).size,
        isSame: set.length === values.length,
      };
    })
    .filter(({ numSame, isSame }) => numSame > 1 || !isSame);
  // A key that has one value wherever it is set tells less than one that was varied.
  return differing
    .sort(
      (one, other) =>
        Number(other.numSame > 1) - Number(one.numSame > 1) || other.numSet - one.numSet,
    )
    .map(({ key }) => key);
}

/** Rows by a column, unknown values last either way; `-` in front reverses the order. */
export function sortedBy(
  rows: readonly RunRow[],
  order: string,
  find: (id: string) => Column | null,
): readonly RunRow[] {
  const isDown = order.startsWith("-");
  const column = find(order.replace(/^-/, ""));
  if (column === null) return rows;
  return rows.toSorted((one, other) =>
    compareValues(column.valueIn(one), column.valueIn(other), isDown),
  );
}

const BY_TEXT = new Intl.Collator("en", { numeric: true });

/** Numbers before texts before unknown values, in both directions: a loss that ended as nan is never the first. */
export function compareValues(one: Value, other: Value, isDown: boolean): number {
  if (typeof one !== typeof other || one === null || other === null)
    return rankOf(one) - rankOf(other);
  const sign =
    typeof one === "number" && typeof other === "number"
      ? one - other
      : BY_TEXT.compare(String(one), String(other));
  return isDown ? -sign : sign;
}

function rankOf(value: Value): number {
  return value === null ? 2 : Number(typeof value === "string");
}

/** Quantiles of Student's t for few values; for more, a series in 1 / df is as exact. */
const T_95 = [0, 12.7062, 4.30265, 3.18245, 2.77645, 2.57058];

/** The mean of the numbers that a group of runs has in a column, with half of its 95 % interval. */
export function meanOf(
  rows: readonly RunRow[],
  column: Column,
): { readonly num: number; readonly mean: number; readonly half: number } {
  const values = rows
    .map((row) => column.valueIn(row))
    .filter((value) => typeof value === "number");
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const df = values.length - 1;
  const quantile =
    T_95[df] ??
    1.959964 + 2.372271 / df + 2.822502 / df ** 2 + 2.555851 / df ** 3 + 1.589536 / df ** 4;
  return {
    num: values.length,
    mean,
    half: df > 0 ? quantile * Math.sqrt(squares / df / values.length) : 0,
  };
}

function plainValue(value: unknown): Value {
  if (value === undefined) return null;
  return typeof value === "number" ? value : valueText(value);
}

function valueAsText(value: Value, write: ((value: number) => string) | undefined): string {
  if (value === null) return "";
  return typeof value === "number" ? (write ?? String)(value) : value;
}

/** The field of a column in a query of the server. */
export function serverField(id: string, statistic: Statistic): string {
  const colon = id.indexOf(":");
  const [kind, name] = [id.slice(0, colon), id.slice(colon + 1).replace(/^role:/, "")];
  if (id === "name") return "name";
  if (kind === "config") return fieldOf("config", name);
  if (kind === "fact") return name;
  return statistic === "best" ? fieldOf("best", name) : fieldOf("summary", name, statistic);
}
