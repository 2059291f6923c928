/** Runs beside each other: a table, parallel coordinates, a scatter plot, groups, configurations. */

import type { Signal } from "@preact/signals";
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import { formatWhole } from "../chart/index.ts";
import { csvField } from "../chart/line/exports.ts";
import type { Page } from "../state/page.ts";
import { download } from "../ui/download.ts";
import { Empty } from "../ui/empty.tsx";
import { Segmented } from "../ui/segmented.tsx";
import type { RunRow } from "../wire.ts";
import { columnOf, differingKeys, FACT_IDS, sortedBy, STATISTICS, withLast } from "./compare-columns.ts";
import type { Column, Statistic } from "./compare-columns.ts";
import { GroupTable, ParallelView, ScatterView } from "./compare-pictures.tsx";
import { ColumnDialog } from "./compare-pickers.tsx";
import type { ColumnGroup } from "./compare-pickers.tsx";
import { useSummaries } from "./compare-summaries.ts";
import { CompareTable } from "./compare-table.tsx";
import { ConfigDiff } from "./config-diff.tsx";
import type { Panel, PanelProps } from "./panel.ts";
import "./parts/section.css";
import "./compare.css";

export const panel: Panel = { order: 30, id: "compare", title: "Compare", shortcut: "v", component: Compare };

const MODES = [
  { value: "table", label: "Table" }, { value: "parallel", label: "Parallel" }, { value: "scatter", label: "Scatter" },
  { value: "groups", label: "Groups" }, { value: "config", label: "Config" },
];
/** In the table, what runs ended with beside their best: a run may have lost what it had reached. */
const BOTH = "both";
const MOST_CONFIG_COLUMNS = 8;
/** Whatever each run calls them. */
const ROLES = [{ id: "metric:role:loss", title: "loss" }, { id: "metric:role:eval_loss", title: "eval loss" }];

function Compare({ page }: PanelProps): JSX.Element {
  const { runs, view } = page;
  const mode = view.text("compare", "table");
  const scope = view.text("compare-of", "all");
  const statistic = view.text("compare-value", BOTH);
  const chosen = view.text("compare-columns");
  const [kept, setKept] = useState<ReadonlySet<string> | null>(null);
  const rows = scope.value === "shown" ? runs.shown.value : runs.fitting.value;
  const groups = useColumnGroups(page, rows);
  const ids = useChosen(chosen, groups, rows);
  const summaries = useSummaries(page, ids.filter((id) => id.startsWith("metric:")).map((id) => id.slice(7)));
  const value = STATISTICS.find((one) => one === statistic.value) ?? "best";
  const isBoth = statistic.value === BOTH && mode.value === "table";
  const find = (id: string): Column | null => (id === "name" ? nameColumn(page) : columnOf(id, { summaries, statistic: value }));
  // Columns that nobody chose and that have nothing in them only take room.
  const isWanted = (column: Column): boolean => chosen.value !== "" || rows.some((row) => column.valueOf(row) !== null);
  const columns = (isBoth ? withLast(ids, summaries) : ids).map(find).filter((column) => column !== null).filter(isWanted);
  const remaining = kept === null ? rows : rows.filter(({ id }) => kept.has(id));
  const setIds = (next: readonly string[]): void => {
    chosen.value = JSON.stringify(next);
  };
  if (runs.isLoaded.value && rows.length === 0) return <Empty title="No run matches the filter">Change the filter of the run list.</Empty>;
  return (
    <div class="pane">
      <div class="pane-bar">
        <Segmented label="Shown as" value={mode.value} onChange={(next) => (mode.value = next)} choices={MODES} />
        <Segmented label="Which runs" value={scope.value} onChange={(next) => (scope.value = next)} choices={[
          { value: "all", label: `All ${runs.fitting.value.length}` }, { value: "shown", label: `In charts ${runs.shown.value.length}` },
        ]} />
        {mode.value !== "config" && (
          <>
            <select class="select" aria-label="Value of metrics" value={isBoth ? BOTH : value} onChange={(event) => (statistic.value = event.currentTarget.value)}>
              {mode.value === "table" && <option value={BOTH}>Last and best</option>}
              {STATISTICS.map((one) => <option key={one} value={one}>{STATISTIC_NAMES[one]}</option>)}
            </select>
            <ColumnDialog groups={groups} chosen={ids} onChange={setIds} />
            {chosen.value !== "" && <button type="button" class="button is-quiet" onClick={() => (chosen.value = "")}>Reset</button>}
          </>
        )}
        {kept !== null && (
          <span class="pane-bar-end">
            <button type="button" class="button is-primary" onClick={() => runs.showOnly([...kept])}>Show these {formatWhole(kept.size)} in charts</button>
            <button type="button" class="button" onClick={() => setKept(null)}>All again</button>
          </span>
        )}
      </div>
      <Shown {...{ page, mode: mode.value, rows: mode.value === "parallel" ? rows : remaining, columns, groups, find, ids, setIds }}
        onKept={(keptIds) => setKept(keptIds === null ? null : new Set(keptIds))} />
    </div>
  );
}

const STATISTIC_NAMES: Readonly<Record<Statistic, string>> = { last: "Last value", best: "Best value", min: "Smallest value", max: "Largest value", mean: "Mean value" };

interface ShownProps {
  readonly page: Page;
  readonly mode: string;
  readonly rows: readonly RunRow[];
  readonly columns: readonly Column[];
  readonly groups: readonly ColumnGroup[];
  readonly find: (id: string) => Column | null;
  readonly ids: readonly string[];
  readonly setIds: (ids: readonly string[]) => void;
  readonly onKept: (ids: readonly string[] | null) => void;
}

function Shown({ page, mode, rows, columns, groups, find, ids, setIds, onKept }: ShownProps): JSX.Element {
  if (mode === "parallel") return <ParallelView page={page} rows={rows} columns={columns} onKept={onKept} />;
  if (mode === "scatter") return <ScatterView page={page} rows={rows} columns={columns} groups={groups} find={find} ids={ids} setIds={setIds} />;
  if (mode === "groups") return <GroupTable page={page} rows={rows} columns={columns} />;
  if (mode === "config") return <ConfigDiff page={page} rows={rows.slice(0, 50)} isDiffOnly matches={() => true} />;
  return <TableView page={page} rows={rows} columns={columns} find={find} ids={ids} setIds={setIds} />;
}

function TableView({ page, rows, columns, find, ids, setIds }: Pick<ShownProps, "page" | "rows" | "columns" | "find" | "ids" | "setIds">): JSX.Element {
  const order = page.view.text("compare-order");
  const diffOnly = page.view.text("compare-diff");
  const sorted = order.value === "" ? rows : sortedBy(rows, order.value, find);
  const shown = diffOnly.value === "1" ? columns.filter((column) => new Set(rows.map((row) => column.textOf(row))).size > 1) : columns;
  const save = (): void => {
    const lines = [["run", "id", ...shown.map(({ title }) => title)], ...sorted.map((row) => [row.name, row.id, ...shown.map((column) => String(column.valueOf(row) ?? ""))])];
    download("runs.csv", lines.map((line) => line.map(csvField).join(",")).join("\r\n") + "\r\n", "text/csv;charset=utf-8");
  };
  return (
    <>
      <div class="pane-bar">
        <label class="check"><input type="checkbox" checked={diffOnly.value === "1"} onChange={(event) => (diffOnly.value = event.currentTarget.checked ? "1" : "")} />Only columns that differ</label>
        <span class="pane-bar-end"><button type="button" class="button" onClick={save}>CSV</button></span>
      </div>
      <CompareTable page={page} rows={sorted} columns={shown} order={order.value} onOrder={(next) => (order.value = next)} onHide={(id) => setIds(ids.filter((one) => one !== id.replace(/^last:/, "metric:")))} />
    </>
  );
}

function nameColumn(page: Page): Column {
  return { id: "name", title: "run", isNumeric: false, kind: "fact", valueOf: ({ id }) => page.runs.label(id), textOf: ({ id }) => page.runs.label(id) };
}

function useColumnGroups(page: Page, rows: readonly RunRow[]): readonly ColumnGroup[] {
  const metrics = page.metrics.value;
  const keys = page.runs.configKeys.value;
  return useMemo(() => [
    { title: "Configuration", choices: keys.map((key) => ({ id: `config:${key}`, title: key })) },
    { title: "Metrics", choices: [...ROLES, ...[...new Set(metrics.map(({ name }) => name))].sort().map((name) => ({ id: `metric:${name}`, title: name }))] },
    { title: "Run", choices: FACT_IDS.map((id) => ({ id, title: columnOf(id, { summaries: new Map(), statistic: "last" })!.title })) },
  ], [metrics, keys, rows.length]);
}

/** The columns chosen; at first the status, the losses, and the settings that differ. */
function useChosen(chosen: Signal<string>, groups: readonly ColumnGroup[], rows: readonly RunRow[]): readonly string[] {
  const text = chosen.value;
  return useMemo(() => {
    const given = parseIds(text);
    if (given !== null) return given;
    const keys = (groups[0]?.choices ?? []).map(({ title }) => title);
    const differing = differingKeys(keys, rows);
    const shownKeys = (differing.length > 0 ? differing : keys).slice(0, MOST_CONFIG_COLUMNS);
    return ["fact:status", ...ROLES.map(({ id }) => id), ...shownKeys.map((key) => `config:${key}`), "fact:step", "fact:duration"];
  }, [text, groups, rows]);
}

function parseIds(text: string): readonly string[] | null {
  if (text === "") return null;
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value.filter((one) => typeof one === "string") : null;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return null;
  }
}
