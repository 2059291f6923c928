/** The columns in which runs are compared: facts, configuration keys and what metrics amount to. */

import { formatDuration, formatNumber, formatWallClock, formatWhole } from "../chart/index.ts";
import { configValue, shortNumber, valueText } from "../state/config.ts";
import { fieldOf } from "../state/run-pages.ts";
import { patternQuery, plainPattern } from "../ui/filter.ts";
import type { RunRow, MetricSummary } from "../wire.ts";

export type Statistic = "last" | "best" | "min" | "max" | "mean";
export const STATISTICS: readonly Statistic[] = ["last", "best", "min", "max", "mean"];

export type Value = number | string | null;

export interface Column {
  /** Stands in the address: `fact:step`, `config:optimizer.lr`, `metric:eval/loss`; `last:eval/loss` stands beside the latter's best. */
  readonly id: string;
  readonly title: string;
  readonly isNumeric: boolean;
  readonly kind: "fact" | "config" | "metric";
  valueOf(row: RunRow): Value;
  textOf(row: RunRow): string;
  /** Every digit, for the pointer. */
  fullOf?(row: RunRow): string;
}

const FACTS: Readonly<Record<string, { readonly title: string; readonly isNumeric: boolean; readonly valueOf: (row: RunRow) => Value; readonly write?: (value: number) => string }>> = {
  status: { title: "status", isNumeric: false, valueOf: ({ status }) => status.text },
  project: { title: "project", isNumeric: false, valueOf: ({ project }) => project },
  created: { title: "started", isNumeric: true, valueOf: ({ created }) => created, write: (value) => formatWallClock(value).slice(0, 16) },
  duration: {
    title: "duration", isNumeric: true, write: formatDuration,
    valueOf: ({ created, updated }) => (created === null || updated === null ? null : Math.max(0, updated - created)),
  },
  step: { title: "step", isNumeric: true, valueOf: ({ step }) => step, write: formatWhole },
  epoch: { title: "epoch", isNumeric: true, valueOf: ({ epoch }) => epoch, write: formatWhole },
  attempts: { title: "attempts", isNumeric: true, valueOf: ({ attempts }) => attempts, write: formatWhole },
  tags: { title: "tags", isNumeric: false, valueOf: ({ tags }) => tags.join(", ") },
  group: { title: "group", isNumeric: false, valueOf: ({ group }) => group },
  job_type: { title: "job type", isNumeric: false, valueOf: ({ job_type }) => job_type },
  owner: { title: "owner", isNumeric: false, valueOf: ({ owner }) => owner },
  notes: { title: "notes", isNumeric: false, valueOf: ({ notes }) => notes },
};

export const FACT_IDS: readonly string[] = Object.keys(FACTS).map((name) => `fact:${name}`);

/** Summaries by run and metric; they come later than the rows. */
export type Summaries = ReadonlyMap<string, Readonly<Record<string, MetricSummary>>>;

export function columnOf(id: string, { summaries, statistic }: { readonly summaries: Summaries; readonly statistic: Statistic }): Column | null {
  const colon = id.indexOf(":");
  const [kind, name] = [id.slice(0, colon), id.slice(colon + 1)];
  if (kind === "fact") {
    const fact = FACTS[name];
    if (fact === undefined) return null;
    const { title, isNumeric, valueOf, write } = fact;
    return { id, title, isNumeric, kind, valueOf, textOf: (row) => valueAsText(valueOf(row), write) };
  }
  if (kind === "config") {
    const valueOf = (row: RunRow): Value => plainValue(configValue(row.config, name));
    return { id, title: name, isNumeric: false, kind, valueOf, textOf: (row) => valueAsText(valueOf(row), shortNumber), fullOf: (row) => valueAsText(valueOf(row), String) };
  }
  if (kind === "last") return { ...columnOf(`metric:${name}`, { summaries, statistic: "last" })!, id };
  if (kind !== "metric") return null;
  const valueOf = (row: RunRow): Value => statisticOf(summaries.get(row.id)?.[name], statistic);
  const title = `${name.replace(/^role:/, "").replace(/^eval_loss$/, "eval loss")} ${statistic}`;
  return { id, title, isNumeric: true, kind, valueOf, textOf: (row) => valueAsText(valueOf(row), formatNumber), fullOf: (row) => valueAsText(valueOf(row), String) };
}

/** Columns with what each metric ended with in front of its best; once where no run knows what is better, or where the value was set and not logged. */
export function withLast(ids: readonly string[], summaries: Summaries): readonly string[] {
  return ids.flatMap((id) => {
    if (!id.startsWith("metric:")) return [id];
    const name = id.slice(7);
    const last = `last:${name}`;
    return [...summaries.values()].some((summary) => summary[name]?.best_x != null) ? [last, id] : [last];
  });
}

export function statisticOf(summary: MetricSummary | undefined, statistic: Statistic): Value {
  if (summary === undefined) return null;
  if (statistic === "last") return summary.last ?? summary.last_nonfinite;
  // What is better is not known of every metric; then its last value stands.
  if (statistic === "best") return summary.best ?? summary.last ?? summary.last_nonfinite;
  return summary[statistic];
}

/** Keys whose values are not the same in all rows; those that most rows have go first. */
export function differingKeys(keys: readonly string[], rows: readonly RunRow[]): readonly string[] {
  const differing = keys.map((key) => {
    const values = rows.map(({ config }) => configValue(config, key));
    const set = values.filter((value) => value !== undefined);
    return { key, numSet: set.length, numSame: new Set(set.map((value) => JSON.stringify(value))).size, isSame: set.length === values.length };
  }).filter(({ numSame, isSame }) => numSame > 1 || !isSame);
  // A key that has one value wherever it is set tells less than one that was varied.
  return differing.sort((one, other) => Number(other.numSame > 1) - Number(one.numSame > 1) || other.numSet - one.numSet).map(({ key }) => key);
}

/** Rows by a column, what is not known at the end either way; `-` in front turns it around. */
export function sortedBy(rows: readonly RunRow[], order: string, find: (id: string) => Column | null): readonly RunRow[] {
  const isDown = order.startsWith("-");
  const column = find(order.replace(/^-/, ""));
  if (column === null) return rows;
  return [...rows].sort((one, other) => compareValues(column.valueOf(one), column.valueOf(other), isDown));
}

const BY_TEXT = new Intl.Collator("en", { numeric: true });

export function compareValues(one: Value, other: Value, isDown: boolean): number {
  if (one === null || other === null) return Number(one === null) - Number(other === null);
  const sign = typeof one === "number" && typeof other === "number" ? one - other : BY_TEXT.compare(String(one), String(other));
  return isDown ? -sign : sign;
}

/** What a group of runs amounts to in a column: mean and standard deviation of the numbers in it. */
export function meanOf(rows: readonly RunRow[], column: Column): { readonly num: number; readonly mean: number; readonly std: number } {
  const values = rows.map((row) => column.valueOf(row)).filter((value) => typeof value === "number");
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { num: values.length, mean, std: values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : 0 };
}

function plainValue(value: unknown): Value {
  if (value === undefined) return null;
  return typeof value === "number" ? value : valueText(value);
}

function valueAsText(value: Value, write: ((value: number) => string) | undefined): string {
  if (value === null) return "";
  return typeof value === "number" ? (write ?? String)(value) : value;
}

/** What a column's filter keeps: `< 3e-4`, `0.1..0.5`, `= 12`, a text that occurs, `!text` that does not. */
export function columnFilter(text: string): (value: Value, shown: string) => boolean {
  const asked = text.trim();
  const compared = COMPARED.exec(asked);
  if (compared !== null) {
    const [, operator = "", digits] = compared;
    const limit = Number(digits);
    return (value) => typeof value === "number" && COMPARISONS[operator]!(value, limit);
  }
  const range = RANGE.exec(asked);
  if (range !== null) return (value) => typeof value === "number" && value >= Number(range[1]) && value <= Number(range[2]);
  const isNot = asked.startsWith("!");
  const words = asked.replace(/^!\s*/, "").toLowerCase();
  return (_, shown) => shown.toLowerCase().includes(words) !== isNot;
}

const COMPARED = /^(<=|>=|!=|<|>|=)\s*(-?[\d.]+(?:e[-+]?\d+)?)$/i;
const RANGE = /^(-?[\d.]+(?:e[-+]?\d+)?)\s*\.\.\s*(-?[\d.]+(?:e[-+]?\d+)?)$/i;

/** The same as a query of the server, which knows all runs; a number alone is a value, not a part of its digits. */
export function columnQuery(field: string, text: string): string {
  const asked = text.trim();
  const [, operator = "", limit] = COMPARED.exec(asked) ?? [];
  if (limit !== undefined) return `${field} ${operator === "=" ? "==" : operator} ${Number(limit)}`;
  const [, low, high] = RANGE.exec(asked) ?? [];
  if (low !== undefined) return `(${field} >= ${Number(low)} and ${field} <= ${Number(high)})`;
  const words = asked.replace(/^!\s*/, "");
  const found = patternQuery(plainPattern(words), field);
  const query = words !== "" && Number.isFinite(Number(words)) ? `(${field} == ${Number(words)} or ${found})` : found;
  return asked.startsWith("!") ? `not ${query}` : query;
}

const COMPARISONS: Readonly<Record<string, (value: number, limit: number) => boolean>> = {
  "<": (value, limit) => value < limit, "<=": (value, limit) => value <= limit, ">": (value, limit) => value > limit,
  ">=": (value, limit) => value >= limit, "=": (value, limit) => value === limit, "!=": (value, limit) => value !== limit,
};

/** The server's word for what a column holds, with `tail` over so many last points. */
export function serverField(id: string, statistic: Statistic, tail = 0): string {
  const colon = id.indexOf(":");
  const [kind, name] = [id.slice(0, colon), id.slice(colon + 1).replace(/^role:/, "")];
  if (id === "name") return "name";
  if (kind === "config") return fieldOf("config", name);
  if (kind === "fact") return name;
  const asked = kind === "last" ? "last" : statistic;
  if (tail > 0) return fieldOf("summary", name, `${asked}@${tail}`);
  return asked === "best" ? fieldOf("best", name) : fieldOf("summary", name, asked);
}
