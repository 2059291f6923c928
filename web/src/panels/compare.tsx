/** Runs beside each other: a table, parallel coordinates, a scatter plot, groups, which config keys matter, configurations. */

import type { Signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { formatWhole, parseBrushes } from "../chart/index.ts";
import { csvField } from "../chart/line/exports.ts";
import type { Page } from "../state/page.ts";
import { MOST_ROWS } from "../state/run-pages.ts";
import { download } from "../ui/download.ts";
import { Empty } from "../ui/empty.tsx";
import { Segmented } from "../ui/segmented.tsx";
import type { RunRow } from "../wire.ts";
import { keptRows } from "./compare-brushes.ts";
import { columnFilter, columnOf, columnQuery, differingKeys, FACT_IDS, serverField, sortedBy, STATISTICS, withLast } from "./compare-columns.ts";
import type { Column, Statistic } from "./compare-columns.ts";
import { GroupsView, MetricSelect, useMetric } from "./compare-groups.tsx";
import { ImportanceView } from "./compare-importance.tsx";
import { firstKeys, ParallelView, ScatterView, useSubject } from "./compare-pictures.tsx";
import { ColumnDialog } from "./compare-pickers.tsx";
import type { ColumnGroup } from "./compare-pickers.tsx";
import { useSummaries } from "./compare-summaries.ts";
import { CompareTable } from "./compare-table.tsx";
import { WhyView } from "./compare-why.tsx";
import { ConfigDiff } from "./config-diff.tsx";
import type { PanelProps } from "./panel.ts";
import { NoRun } from "./parts/no-run.tsx";
import { countedRows, UnfinishedNote } from "./parts/unfinished.tsx";
import "./parts/section.css";
import "./compare.css";

const MODES = [
  { value: "table", label: "Table" }, { value: "parallel", label: "Parallel" }, { value: "scatter", label: "Scatter" },
  { value: "groups", label: "Groups" }, { value: "importance", label: "Importance" }, { value: "why", label: "Why" }, { value: "config", label: "Config" },
];
/** In the table, what runs ended with beside their best: a run may have lost what it had reached. */
const BOTH = "both";
const MOST_CONFIG_COLUMNS = 8;
const MOST_SET_COLUMNS = 4;
/** Whatever each run calls them. */
const ROLES = [{ id: "metric:role:loss", title: "loss of each run" }, { id: "metric:role:eval_loss", title: "eval loss of each run" }];

export function Compare({ page }: PanelProps): JSX.Element {
  const { runs, view } = page;
  const mode = view.text("compare", "table");
  const scope = view.text("compare-of", "all");
  const statistic = view.text("compare-value", BOTH);
  const isPicture = mode.value === "parallel" || mode.value === "scatter";
  const chosen = view.text(mode.value === "parallel" ? "parallel-axes" : "compare-columns");
  const rows = scope.value === "shown" ? runs.shown.value : runs.fitting.value;
  // While the server applies filters of columns, the columns stay those of the rows before.
  const isNarrowed = runs.columnQuery.value !== "";
  const before = useRef(rows);
  if (!isNarrowed) before.current = rows;
  const basis = before.current;
  const groups = useColumnGroups(page, basis);
  const asPicture = STATISTICS.find((one) => one === statistic.value) ?? "last";
  const value = isPicture || statistic.value !== BOTH ? asPicture : "best";
  const [metric, setMetric] = useMetric(page);
  const scatter = { x: view.text("scatter-x").value, y: view.text("scatter-y").value, color: view.text("scatter-color").value };
  const asked = mode.value === "scatter" && scatter.y.startsWith("metric:") ? scatter.y.slice(7) : metric;
  const subject = useSubject(page, isPicture ? asked : "", value);
  const keys = useMemo(() => (isPicture ? firstKeys(subject.ranking, runs.configKeys.value, rows) : []), [isPicture, subject.ranking, runs.configKeys.value, rows]);
  const brushes = useMemo(() => parseBrushes(view.text("parallel-brush").value), [view.text("parallel-brush").value]);
  const tableIds = useChosen(chosen, groups, basis, page.setNames.value);
  const axisIds = [...(chosen.value === "" ? (subject.isWaiting ? [] : keys.map((key) => `config:${key}`)) : tableIds.filter((id) => id !== `metric:${metric}`)), `metric:${metric}`];
  const ids = mode.value === "parallel" ? axisIds : tableIds;
  const tail = view.text("compare-tail");
  const numTail = Math.max(0, Math.floor(Number(tail.value)) || 0);
  // The server computes these, of all runs that fit.
  const isOfServer = mode.value === "groups" || mode.value === "importance" || mode.value === "why";
  const needed = isOfServer ? [] : [...ids, ...brushes.keys(), ...(mode.value === "scatter" ? [`metric:${metric}`, ...Object.values(scatter)] : [])];
  const { summaries, isReading } = useSummaries(page, [...new Set(needed)].filter((id) => id.startsWith("metric:")).map((id) => id.slice(7)), numTail);
  useEffect(() => runs.wantMany(), [runs.bigList.value, runs.numFitting.value]);
  const isBoth = statistic.value === BOTH && mode.value === "table";
  const find = (id: string): Column | null => (id === "name" ? nameColumn(page) : columnOf(id, { summaries, statistic: value }));
  // Columns that nobody chose and that have nothing in them only take room.
  const isWanted = (column: Column): boolean => chosen.value !== "" || isNarrowed || basis.some((row) => column.valueOf(row) !== null);
  const columns = (isBoth ? withLast(ids, summaries) : ids).map(find).filter((column) => column !== null).filter(isWanted);
  const outcome = isPicture ? find(`metric:${asked}`) : null;
  const counted = countedRows(rows, view.withUnfinished.value, (row) => outcome === null || outcome.valueOf(row) !== null);
  const drawn = isPicture ? counted.rows : rows;
  const remaining = brushes.size === 0 ? drawn : keptRows(drawn, brushes, (id) => columnOf(id, { summaries, statistic: asPicture }));
  const setIds = (next: readonly string[]): void => {
    chosen.value = JSON.stringify(next);
  };
  if (rows.length === 0 && !isNarrowed) return scope.value === "shown" && runs.fitting.value.length > 0 ? <NoneShown onAll={() => (scope.value = "all")} /> : <NoRun page={page} />;
  return (
    <div class="pane">
      <div class="pane-bar">
        <Segmented label="Shown as" value={mode.value} onChange={(next) => (mode.value = next)} choices={MODES} />
        {!isOfServer && <Segmented label="Which runs" value={scope.value} onChange={(next) => (scope.value = next)} choices={[
          { value: "all", label: `All ${formatWhole(runs.numFitting.value)}` }, { value: "shown", label: `In charts ${runs.shown.value.length}` },
        ]} />}
        {mode.value !== "config" && !isOfServer && (
          <>
            <select class="select" aria-label="Value of metrics" value={isBoth ? BOTH : value} onChange={(event) => (statistic.value = event.currentTarget.value)}>
              {mode.value === "table" && <option value={BOTH}>Last and best</option>}
              {STATISTICS.map((one) => <option key={one} value={one}>{STATISTIC_NAMES[one]}</option>)}
            </select>
            {page.source.supportsQueries && (
              <label class="column-select" title="Statistics of the last points only; empty for all points">
                <span class="slider-label">of the last</span>
                <input class="tail" type="number" min={0} step={1} placeholder="all" aria-label="Of how many last points" value={numTail === 0 ? "" : numTail}
                  onChange={(event) => (tail.value = event.currentTarget.value)} />
                <span class="slider-label">points</span>
              </label>
            )}
            {mode.value === "parallel" && <MetricSelect page={page} value={metric} onChange={setMetric} />}
            {mode.value !== "scatter" && <ColumnDialog groups={groups} chosen={ids} onChange={setIds} />}
            {mode.value !== "scatter" && chosen.value !== "" && <button type="button" class="button is-quiet" onClick={() => (chosen.value = "")}>Reset</button>}
          </>
        )}
        {brushes.size > 0 && mode.value !== "parallel" && !isOfServer && (
          <span class="pane-bar-end">
            <span class="card-note">{formatWhole(remaining.length)} runs kept in Parallel</span>
            <button type="button" class="button" onClick={() => (view.text("parallel-brush").value = "")}>All again</button>
          </span>
        )}
      </div>
      {scope.value === "all" && runs.fitting.value.length < runs.numFitting.value && <TooMany page={page} />}
      {isPicture && <UnfinishedNote page={page} unfinished={counted.unfinished} />}
      {mode.value === "table" && runs.groupKeys.value.length > 0 && <UnfinishedNote page={page} unfinished={counted.unfinished} label="Include unfinished runs in the means of groups" isNamed />}
      {isReading && <p class="card-note" role="status">Reading values of the metrics …</p>}
      {isPicture && isReading && summaries.size === 0 ? null
        : mode.value === "parallel" ? <ParallelView {...{ page, rows: drawn, kept: remaining, columns, subject, statistic: value, numTail, brushes }} />
        : mode.value === "scatter" ? (
          <ScatterView {...{ page, rows: remaining, groups, subject }} isRanked={scope.value === "all" && brushes.size === 0 && numTail === 0}
            x={find(scatter.x) ?? (keys.length === 0 ? null : find(`config:${keys.at(-1)!}`))} y={find(scatter.y) ?? (metric === "" ? null : find(`metric:${metric}`))} color={find(scatter.color)} />
        ) : <Shown {...{ page, statistic: value, mode: mode.value, rows: remaining, columns, find, ids, setIds, isOfAll: scope.value === "all" && brushes.size === 0, numTail }} />}
    </div>
  );
}

/** There are more runs than this page holds: says which of them are compared. */
function TooMany({ page }: { readonly page: Page }): JSX.Element {
  const { fitting, numFitting } = page.runs;
  const [num, all] = [fitting.value.length, numFitting.value];
  return <p class="card-note" role="status">{num < Math.min(MOST_ROWS, all) ? `Loading… ${formatWhole(num)} of ${formatWhole(all)} runs` : `The first ${formatWhole(num)} of ${formatWhole(all)} runs, in the order of the list. Sorting sorts all of them; a filter narrows them.`}</p>;
}

function NoneShown({ onAll }: { readonly onAll: () => void }): JSX.Element {
  return <Empty title="No run is in the charts">Tick runs in the list, or <button type="button" class="link" onClick={onAll}>compare all that fit</button>.</Empty>;
}

const STATISTIC_NAMES: Readonly<Record<Statistic, string>> = { last: "Last value", best: "Best value", min: "Smallest value", max: "Largest value", mean: "Mean value" };

interface ShownProps {
  readonly page: Page;
  readonly mode: string;
  readonly rows: readonly RunRow[];
  readonly columns: readonly Column[];
  readonly find: (id: string) => Column | null;
  readonly statistic: Statistic;
  readonly ids: readonly string[];
  readonly setIds: (ids: readonly string[]) => void;
  /** Whether the rows are those of the list. */
  readonly isOfAll: boolean;
  readonly numTail: number;
}

function Shown(props: ShownProps): JSX.Element {
  const { page, mode, rows } = props;
  if (mode === "groups") return <GroupsView page={page} />;
  if (mode === "importance") return <ImportanceView page={page} />;
  if (mode === "why") return <WhyView page={page} />;
  if (mode === "config") return <ConfigDiff page={page} rows={rows} isDiffOnly matches={() => true} />;
  return <TableView {...props} />;
}

function TableView({ page, rows, columns, find, statistic, ids, setIds, isOfAll, numTail }: ShownProps): JSX.Element {
  const { view, runs } = page;
  const order = view.text("compare-order");
  const diffOnly = view.text("compare-diff");
  const filters = view.text("compare-filters");
  const folded = view.text("compare-folded");
  const [isFiltering, setFiltering] = useState(filters.value !== "");
  const asked = useMemo(() => parseFilters(filters.value), [filters.value]);
  const isBig = runs.bigList.value !== null;
  // Where there are too many runs for this page, the server chooses from all of them.
  const isAsked = isBig && isOfAll;
  const query = isAsked ? Object.entries(asked).map(([id, text]) => columnQuery(serverField(id, statistic, numTail), text)).join(" and ") : "";
  useEffect(() => void (runs.columnQuery.value = query), [query]);
  useEffect(() => () => void (runs.columnQuery.value = ""), []);
  const ofPage = isAsked ? [] : Object.entries(asked);
  const kept = ofPage.length === 0 ? rows : rows.filter((row) => ofPage.every(([id, text]) => {
    const column = find(id);
    return column === null || columnFilter(text)(column.valueOf(row), column.textOf(row));
  }));
  const sorted = order.value === "" || isBig ? kept : sortedBy(kept, order.value, find);
  const shown = diffOnly.value === "1" ? columns.filter((column) => new Set(rows.map((row) => column.textOf(row))).size > 1) : columns;
  const sort = (next: string): void => {
    order.value = next;
    if (isBig) view.order.value = `${next.startsWith("-") ? "-" : ""}${serverField(next.replace(/^-/, ""), statistic, numTail)}`;
  };
  const setFilter = (id: string, text: string): void => {
    const next = Object.fromEntries(Object.entries({ ...asked, [id]: text }).filter(([, one]) => one.trim() !== ""));
    filters.value = Object.keys(next).length === 0 ? "" : JSON.stringify(next);
  };
  const save = (): void => {
    const lines = [["run", "id", ...shown.map(({ title }) => title)], ...sorted.map((row) => [row.name, row.id, ...shown.map((column) => String(column.valueOf(row) ?? ""))])];
    download("runs.csv", lines.map((line) => line.map(csvField).join(",")).join("\r\n") + "\r\n", "text/csv;charset=utf-8");
  };
  return (
    <>
      <div class="pane-bar">
        <label class="check"><input type="checkbox" checked={diffOnly.value === "1"} onChange={(event) => (diffOnly.value = event.currentTarget.checked ? "1" : "")} />Only columns that differ</label>
        <label class="check"><input type="checkbox" checked={isFiltering} onChange={(event) => {
          setFiltering(event.currentTarget.checked);
          if (!event.currentTarget.checked) filters.value = "";
        }} />Filter columns</label>
        {runs.groupKeys.value.length > 0 && <label class="check"><input type="checkbox" checked={folded.value === "1"} onChange={(event) => (folded.value = event.currentTarget.checked ? "1" : "")} />Groups only</label>}
        {(kept.length < rows.length || query !== "") && (
          <span class="card-note" role="status">
            {query !== "" && !runs.isSettled.value ? "Searching…" : `${formatWhole(ofPage.length > 0 ? kept.length : runs.numFitting.value)} of ${formatWhole(query === "" ? rows.length : runs.numAll.value)} runs match`}
          </span>
        )}
        <span class="pane-bar-end"><button type="button" class="button" onClick={save}>CSV</button></span>
      </div>
      <CompareTable page={page} rows={sorted} columns={shown} order={order.value} onOrder={sort} filters={isFiltering ? asked : null} onFilter={setFilter}
        onHide={(id) => setIds(ids.filter((one) => one !== id.replace(/^last:/, "metric:")))} />
    </>
  );
}

function parseFilters(text: string): Readonly<Record<string, string>> {
  try {
    const value: unknown = text === "" ? {} : JSON.parse(text);
    return typeof value === "object" && value !== null ? Object.fromEntries(Object.entries(value).filter(([, one]) => typeof one === "string")) as Record<string, string> : {};
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return {};
  }
}

function nameColumn(page: Page): Column {
  return { id: "name", title: "run", isNumeric: false, kind: "fact", valueOf: ({ id }) => page.runs.label(id), textOf: ({ id }) => page.runs.label(id) };
}

function useColumnGroups(page: Page, rows: readonly RunRow[]): readonly ColumnGroup[] {
  const metrics = page.metrics.value;
  const keys = page.runs.configKeys.value;
  const setNames = page.setNames.value;
  return useMemo(() => [
    { title: "Configuration", choices: keys.map((key) => ({ id: `config:${key}`, title: key })) },
    { title: "Metrics", choices: [...ROLES, ...[...new Set([...metrics.map(({ name }) => name), ...setNames])].sort().map((name) => ({ id: `metric:${name}`, title: name }))] },
    { title: "Run", choices: FACT_IDS.map((id) => ({ id, title: columnOf(id, { summaries: new Map(), statistic: "last" })!.title })) },
  ], [metrics, keys, setNames, rows.length]);
}

/** The columns chosen; at first the status, the losses, what the programs set as their summary, and the settings that differ. */
function useChosen(chosen: Signal<string>, groups: readonly ColumnGroup[], rows: readonly RunRow[], setNames: readonly string[]): readonly string[] {
  const text = chosen.value;
  return useMemo(() => {
    const given = parseIds(text);
    if (given !== null) return given;
    const keys = (groups[0]?.choices ?? []).map(({ title }) => title);
    const differing = differingKeys(keys, rows);
    const shownKeys = (differing.length > 0 ? differing : keys).slice(0, MOST_CONFIG_COLUMNS);
    return ["fact:status", ...ROLES.map(({ id }) => id), ...setNames.slice(0, MOST_SET_COLUMNS).map((name) => `metric:${name}`), ...shownKeys.map((key) => `config:${key}`), "fact:step", "fact:duration"];
  }, [text, groups, rows, setNames]);
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
