/** Many runs as pictures: a line each over several axes, a point each over two. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { createParallel, createScatter } from "../chart/index.ts";
import type { Brush } from "../chart/index.ts";
import type { Page } from "../state/page.ts";
import { Empty } from "../ui/empty.tsx";
import { Mount } from "../ui/mount.tsx";
import type { RunRow } from "../wire.ts";
import type { Column } from "./compare-columns.ts";
import { ColumnSelect } from "./compare-pickers.tsx";
import type { ColumnGroup } from "./compare-pickers.tsx";
import { Section } from "./parts/section.tsx";

const MOST_AXES = 12;

interface PictureProps {
  readonly page: Page;
  readonly rows: readonly RunRow[];
  readonly columns: readonly Column[];
}

export function ParallelView({ page, rows, columns, onKept }: PictureProps & { readonly onKept: (ids: readonly string[] | null) => void }): JSX.Element {
  const [brushes, setBrushes] = useState<ReadonlyMap<string, Brush>>(new Map());
  const axes = columns.filter((column) => isVaried(rows, column)).slice(0, MOST_AXES);
  // The result is read at the right, and colours the lines.
  const ordered = [...axes.filter(({ kind }) => kind !== "metric"), ...axes.filter(({ kind }) => kind === "metric")];
  if (ordered.length < 2) return <Empty title="No differences between these runs">Choose config keys and metrics that differ under Columns.</Empty>;
  const lastMetric = ordered.findLastIndex(({ kind }) => kind === "metric");
  const options = {
    label: "Runs",
    axes: ordered.map((column) => ({ name: column.title, isLog: spansDecades(rows, column) })),
    items: rows.map((row) => ({ id: row.id, label: page.runs.label(row.id), slot: page.runs.slot(row.id), values: ordered.map((column) => column.valueOf(row)) })),
    colorAxis: lastMetric < 0 ? null : lastMetric,
    brushes: new Map(ordered.flatMap((column, index): [number, Brush][] => (brushes.has(column.id) ? [[index, brushes.get(column.id)!]] : []))),
    highlighted: page.runs.focus.value?.id ?? null,
    onBrush: (next: ReadonlyMap<number, Brush>, keptIds: readonly string[]) => {
      setBrushes(new Map([...next].map(([index, brush]) => [ordered[index]!.id, brush])));
      onKept(next.size === 0 ? null : keptIds);
    },
    onItem: (id: string) => (page.view.focus.value = id),
  };
  return (
    <Section title="Parallel coordinates" note="drag along an axis to keep the runs that pass there">
      <div class="parallel"><div style={{ minWidth: `${ordered.length * 84}px` }}>
        <Mount height={420} create={(root) => createParallel(root, options)} update={(chart) => chart.update(options)} />
      </div></div>
    </Section>
  );
}

/** Whether a column tells runs apart; where all are alike an axis says nothing. */
function isVaried(rows: readonly RunRow[], column: Column): boolean {
  return new Set(rows.map((row) => column.valueOf(row)).filter((value) => value !== null)).size > 1;
}

/** Learning rates and sizes: values over a power of ten or more, none of them zero or below. */
export function spansDecades(rows: readonly RunRow[], column: Column): boolean {
  const values = rows.map((row) => column.valueOf(row)).filter((value) => value !== null);
  if (values.length < 2 || !values.every((value) => typeof value === "number" && value > 0)) return false;
  return Math.max(...(values as number[])) / Math.min(...(values as number[])) >= 10;
}

interface ScatterProps extends PictureProps {
  readonly groups: readonly ColumnGroup[];
  readonly find: (id: string) => Column | null;
  readonly ids: readonly string[];
  readonly setIds: (ids: readonly string[]) => void;
}

export function ScatterView({ page, rows, columns, groups, find, ids, setIds }: ScatterProps): JSX.Element {
  const xId = page.view.text("scatter-x");
  const yId = page.view.text("scatter-y");
  const numeric = columns.filter((column) => rows.some((row) => typeof column.valueOf(row) === "number"));
  const x = find(xId.value) ?? numeric.find(({ kind }) => kind === "config") ?? numeric[0] ?? null;
  const y = find(yId.value) ?? numeric.findLast(({ kind }) => kind === "metric") ?? numeric.at(-1) ?? null;
  const choose = (signal: { value: string }) => (id: string): void => {
    signal.value = id;
    // What a metric amounts to is asked for where it is a column.
    if (!ids.includes(id)) setIds([...ids, id]);
  };
  if (x === null || y === null) return <Empty title="No numbers to compare">These runs have no numeric config values and no metrics.</Empty>;
  const items = rows.flatMap((row) => {
    const [atX, atY] = [x.valueOf(row), y.valueOf(row)];
    return typeof atX === "number" && typeof atY === "number" ? [{ id: row.id, label: page.runs.label(row.id), slot: page.runs.slot(row.id), x: atX, y: atY }] : [];
  });
  const options = {
    label: "Runs", items, xName: x.title, yName: y.title,
    xKind: spansDecades(rows, x) ? "log" as const : "linear" as const,
    yKind: spansDecades(rows, y) ? "log" as const : "linear" as const,
    hasTrend: true,
    highlighted: page.runs.focus.value?.id ?? null,
    onItem: (id: string) => (page.view.focus.value = id),
  };
  return (
    <Section title={`${y.title} by ${x.title}`} note={items.length < rows.length ? `${items.length} of ${rows.length} runs have both` : undefined}>
      <div class="section-body">
        <div class="pane-bar">
          <ColumnSelect label="x" groups={groups} value={x.id} onChange={choose(xId)} />
          <ColumnSelect label="y" groups={groups} value={y.id} onChange={choose(yId)} />
        </div>
        <Mount height={420} create={(root) => createScatter(root, options)} update={(chart) => chart.update(options)} />
      </div>
    </Section>
  );
}
