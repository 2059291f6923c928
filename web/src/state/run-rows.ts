/** What rows of runs say: their headline and texts, their order, and how the server is asked for both. */

import { quoted } from "../ui/filter.ts";
import type { MetricSummary, Nonfinite, Points, RunRow } from "../wire.ts";

/** The roles of which a row has the last value. */
export const HEADLINES: readonly string[] = ["role:loss", "role:eval_loss"];

export function projectsQuery(chosen: readonly string[] | null): string {
  if (chosen === null) return "";
  return chosen.length === 1
    ? `project == ${quoted(chosen[0]!)}`
    : `project in [${chosen.map(quoted).join(", ")}]`;
}

/** The server's word for an order of the list: roles are found by their names there. */
export function serverOrder(order: string): string {
  return order.replace(/^(-?)role:(\w+)$/, "$1summary.$2.last");
}

/** The value that stands for a run in a list, and what it is. */
export function headline(
  row: RunRow,
): { readonly role: string; readonly summary: MetricSummary } | null {
  for (const role of HEADLINES) {
    const summary = row.summaries[role];
    if (summary !== undefined)
      return { role: role.replace("role:", "").replace("_", " "), summary };
  }
  return null;
}

export function isEnded({ status }: RunRow): boolean {
  return !["waiting", "running", "silent"].includes(status.state);
}

/** What the search box looks through; the field `text` of the server's queries. */
export function searchTextsOf(row: RunRow): readonly string[] {
  return [row.name, row.id, ...row.tags, row.status.state];
}

export function ordered(rows: readonly RunRow[], order: string): readonly RunRow[] {
  const isDown = order.startsWith("-");
  const key = order.replace(/^-/, "");
  const sortValue = (row: RunRow): number | string | null => {
    if (key === "name") return row.name;
    if (key === "created") return row.created;
    if (key === "updated") return row.updated;
    return row.summaries[key]?.last ?? null;
  };
  return [...rows].sort((one, other) => {
    const [a, b] = [sortValue(one), sortValue(other)];
    // What is not known comes last, whichever way around.
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    const sign = a < b ? -1 : a > b ? 1 : 0;
    return isDown ? -sign : sign;
  });
}

export function nonfiniteWord(value: number): MetricSummary["last_nonfinite"] {
  if (Number.isFinite(value)) return null;
  return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

/** The number of a word; nan where there is none. */
export function nonfiniteValue(word: Nonfinite | null | undefined): number {
  return word === "inf" ? Infinity : word === "-inf" ? -Infinity : NaN;
}

/** The last of the points of an update. */
export function newestValue({ value, nonfinite }: Points): number {
  const last = value.length - 1;
  return value[last] ?? nonfiniteValue(nonfinite[String(last)]);
}
