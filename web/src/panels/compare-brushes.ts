/** Parts of axes that were chosen in parallel coordinates: the runs that they keep, and the query for the same runs. */

import { isNameOf, passes } from "../chart/index.ts";
import type { Brush } from "../chart/index.ts";
import { configValue } from "../state/config.ts";
import { quoted } from "../ui/filter.ts";
import type { RunRow } from "../wire.ts";
import { serverField } from "./compare-columns.ts";
import type { Column, Statistic } from "./compare-columns.ts";

export type Brushes = ReadonlyMap<string, Brush>;

/** The rows that pass every brush; a brush of an unknown column keeps all. */
export function keptRows(
  rows: readonly RunRow[],
  brushes: Brushes,
  find: (id: string) => Column | null,
): readonly RunRow[] {
  const parts = [...brushes].map(([id, brush]) => ({ brush, column: find(id) }));
  return rows.filter((row) =>
    parts.every(({ brush, column }) => column === null || passes(brush, column.valueIn(row))),
  );
}

/** The brushes as a query; null where the query language cannot express one. */
export function brushQuery(
  rows: readonly RunRow[],
  brushes: Brushes,
  statistic: Statistic,
): string | null {
  const parts = [...brushes].map(([id, { range, names }]) => {
    const field = serverField(id, statistic);
    const literals = names
      .filter((name) => name !== null && name !== "nan")
      .map((name) => literalOf(rows, id, name!));
    const limits =
      range === null
        ? []
        : [
            ...(range[0] > -Number.MAX_VALUE ? [`${field} >= ${range[0]}`] : []),
            ...(range[1] < Number.MAX_VALUE ? [`${field} <= ${range[1]}`] : []),
          ];
    const ways = [
      ...(limits.length === 0 ? [] : [limits.join(" and ")]),
      ...(literals.length === 0 ? [] : [`${field} in [${literals.join(", ")}]`]),
      ...(names.includes(null) ? [`not exists(${field})`] : []),
    ];
    // Values that are not finite have no comparison in a query.
    if (ways.length === 0 || names.includes("nan")) return null;
    return ways.length === 1 ? ways[0]! : `(${ways.join(" or ")})`;
  });
  return parts.includes(null) ? null : parts.join(" and ");
}

/** A category as the config has it: a number, a text, true or false. */
function literalOf(rows: readonly RunRow[], id: string, name: string): string {
  if (!id.startsWith("config:")) return quoted(name);
  for (const { config } of rows) {
    const value = configValue(config, id.slice(7));
    if (typeof value === "number" && isNameOf(name, value)) return String(value);
    if (typeof value === "boolean" && String(value) === name) return name;
    if (value === name) break;
  }
  return quoted(name);
}
