/** Runs in rows, what they have in columns. Only the rows in view are on the page. */

import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";

import { RunNote, RunTags } from "../app/run-edit.tsx";
import { formatDelta, formatNumber, slotCss } from "../chart/index.ts";
import { groupBy } from "../state/group-by.ts";
import { groupTitle } from "../state/group-keys.ts";
import type { Page } from "../state/page.ts";
import { csvField, download } from "../ui/download.ts";
import { Empty } from "../ui/empty.tsx";
import { MiddleText } from "../ui/middle-text.tsx";
import { useScrollView, windowOf } from "../ui/window.ts";
import type { RunRow } from "../wire.ts";
import type { Subject } from "./compare.tsx";
import {
  columnOf,
  differingKeys,
  FIRST_FACTS,
  meanOf,
  ROLES,
  serverField,
  sortedBy,
} from "./compare-columns.ts";
import type { Column } from "./compare-columns.ts";
import { ColumnDialog, parseIds } from "./compare-pickers.tsx";
import { useSummaries } from "./compare-summaries.ts";
import { countedRows } from "./parts/unfinished.tsx";

type Line =
  | { readonly kind: "run"; readonly row: RunRow }
  | {
      readonly kind: "group";
      readonly title: string;
      readonly rows: readonly RunRow[];
      readonly isFolded: boolean;
    };

const MOST_CONFIG_COLUMNS = 8;
const MOST_METRIC_COLUMNS = 6;
/** A finger needs 44 pixels; tests have no media. */
const ROW_PX = globalThis.matchMedia?.("(pointer: coarse)").matches ? 44 : 30;
const OVERSCAN = 10;
const NAME_PX = { least: 140, most: 320, onPhone: 170 };
const LEAST_PX = 56;
const EDITED_PX = 84;
const MOST_PX = 260;
const PADDING_PX = 18;
const DELTA_PX = 60;
const SORT_PX = 18;
const BOX_PX = 24;
/** Widths are those of the first rows. */
const MEASURED = 200;
const EDITED: Readonly<Record<string, typeof RunNote>> = {
  "fact:notes": RunNote,
  "fact:tags": RunTags,
};

export function TableView({ page, metric, statistic, goal }: Subject): JSX.Element {
  const { view, runs } = page;
  const chosen = view.text("compare-columns");
  const order = view.text("compare-order");
  const isShownOnly = view.text("compare-of");
  const rows =
    isShownOnly.value === "shown"
      ? runs.fitting.value.filter(({ id }) => runs.isShown(id))
      : runs.fitting.value;
  const ids = useMemo(
    () => parseIds(chosen.value) ?? firstColumns(page, metric, rows),
    [chosen.value, page.metrics.value, page.setNames.value, runs.configKeys.value, metric, rows],
  );
  const { summaries, isReading } = useSummaries(page, [...ids, `metric:${metric}`]);
  const find = (id: string): Column | null =>
    id === "name"
      ? {
          id,
          title: "run",
          kind: "fact",
          valueIn: (row) => runs.label(row.id),
          textOf: (row) => runs.label(row.id),
        }
      : columnOf(id, { summaries, statistic });
  // Columns that nobody chose and that are empty only take room; notes and tags can be written.
  const isWanted = (column: Column): boolean =>
    chosen.value !== "" ||
    (column.id in EDITED && page.selection.actions !== null) ||
    rows.some((row) => column.valueIn(row) !== null);
  const columns = ids
    .map(find)
    .filter((column) => column !== null)
    .filter(isWanted);
  // The server sorts a list that is too long for this page; else the best run is first until another order is chosen.
  const isBig = runs.bigList.value !== null;
  const byMetric = goal === null || isBig ? "" : `${goal === "max" ? "-" : ""}metric:${metric}`;
  const sorting = order.value === "" ? byMetric : order.value;
  const sorted = isBig ? rows : sortedBy(rows, sorting, find);
  const sort = (next: string): void => {
    order.value = next;
    if (isBig)
      view.order.value = `${next.startsWith("-") ? "-" : ""}${serverField(next.replace(/^-/, ""), statistic)}`;
  };
  const save = (): void => {
    const lines = [
      ["run", "id", ...columns.map(({ title }) => title)],
      ...sorted.map((row) => [
        row.name,
        row.id,
        ...columns.map((column) => String(column.valueIn(row) ?? "")),
      ]),
    ];
    download(
      "runs.csv",
      `${lines.map((line) => line.map(csvField).join(",")).join("\r\n")}\r\n`,
      "text/csv;charset=utf-8",
    );
  };
  return (
    <>
      <div class="pane-bar">
        <ColumnDialog page={page} setting="compare-columns" chosen={ids} />
        <label class="check">
          <input
            type="checkbox"
            checked={isShownOnly.value === "shown"}
            onChange={(event) => (isShownOnly.value = event.currentTarget.checked ? "shown" : "")}
          />
          Only checked runs
        </label>
        {runs.groupKeys.value.length > 0 && (
          <span class="card-note">± is the 95 % interval of the mean of a group</span>
        )}
        {isReading && (
          <span class="card-note" role="status">
            Reading values of the metrics …
          </span>
        )}
        <span class="pane-bar-end">
          <button type="button" class="button" onClick={save}>
            CSV
          </button>
        </span>
      </div>
      {rows.length === 0 ? (
        <Empty title="No run is checked">
          Check runs in the list to show them here and in the charts.
        </Empty>
      ) : (
        <Table page={page} rows={sorted} columns={columns} order={sorting} onOrder={sort} />
      )}
    </>
  );
}

/** The config that differs, the metrics that matter, then facts. */
function firstColumns(
  { runs, metrics, setNames }: Page,
  metric: string,
  rows: readonly RunRow[],
): readonly string[] {
  const differing = differingKeys(runs.configKeys.value, rows);
  const known = metrics.value;
  const roles = ROLES.filter(
    ({ role }) => known.find(({ name }) => name === metric)?.role !== role,
  ).map(({ role, id }) => {
    const named = known.filter((one) => one.role === role);
    return named.length === 1 ? `metric:${named[0]!.name}` : id;
  });
  const others = [
    ...known.filter(({ goal, role }) => goal !== null && role === null).map(({ name }) => name),
    ...setNames.value,
  ];
  return [
    ...differing.slice(0, MOST_CONFIG_COLUMNS).map((key) => `config:${key}`),
    ...[
      ...new Set([`metric:${metric}`, ...roles, ...others.map((name) => `metric:${name}`)]),
    ].slice(0, MOST_METRIC_COLUMNS),
    ...FIRST_FACTS,
  ];
}

interface TableProps {
  readonly page: Page;
  readonly rows: readonly RunRow[];
  readonly columns: readonly Column[];
  /** Id of the column that rows are sorted by, with a minus in front for the reverse. */
  readonly order: string;
  readonly onOrder: (order: string) => void;
}

function Table({ page, rows, columns, order, onOrder }: TableProps): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const view = useScrollView(frame);
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const keys = page.runs.groupKeys.value;
  const lines = linesOf(rows, keys, folded);
  const counted = new Set(
    keys.length === 0 ? [] : countedRows(page.runs.fitting.value, page.view.withUnfinished.value),
  );
  const hasBaseline = page.runs.baseline.value !== null;
  const template = useMemo(() => {
    const name =
      widest(rows.slice(0, MEASURED).map(({ id }) => page.runs.label(id))) + PADDING_PX + BOX_PX;
    const first = matchMedia("(max-width: 640px)").matches
      ? NAME_PX.onPhone
      : Math.max(NAME_PX.least, Math.min(NAME_PX.most, name));
    const heads = lines.filter((line) => line.kind === "group");
    return `${first}px ${columns
      .map((column) =>
        widthOf(
          column,
          naturalWidth(
            column,
            rows,
            hasBaseline,
            heads.map((line) => groupText(line, counted, column)),
          ) + (order.endsWith(column.id) ? SORT_PX : 0),
        ),
      )
      .join(" ")}`;
  }, [columns, rows, hasBaseline, keys.length, order]);
  const { start, stop } = windowOf({
    ...view,
    rowHeight: ROW_PX,
    count: lines.length,
    overscan: OVERSCAN,
  });
  const fold = (title: string): void =>
    setFolded(
      new Set(folded.has(title) ? [...folded].filter((one) => one !== title) : [...folded, title]),
    );
  return (
    <div
      ref={frame}
      class="compare"
      role="table"
      aria-label="Runs"
      aria-rowcount={lines.length + 1}
      tabIndex={0}
      style={{ "--columns": template }}
    >
      <div class="compare-row compare-head" role="row">
        <Head id="name" title="run" isNumber={false} order={order} onOrder={onOrder} />
        {columns.map((column) => (
          <Head
            key={column.id}
            id={column.id}
            title={column.title}
            isNumber={isNumeric(column, rows)}
            order={order}
            onOrder={onOrder}
          />
        ))}
      </div>
      <div class="compare-space" style={{ height: `${lines.length * ROW_PX}px` }}>
        {lines
          .slice(start, stop)
          .map((line, index) =>
            line.kind === "run" ? (
              <Row
                key={line.row.id}
                page={page}
                row={line.row}
                columns={columns}
                index={start + index}
              />
            ) : (
              <GroupRow
                key={`group ${line.title}`}
                line={line}
                counted={counted}
                keys={keys}
                columns={columns}
                index={start + index}
                onFold={() => fold(line.title)}
              />
            ),
          )}
      </div>
    </div>
  );
}

function linesOf(
  rows: readonly RunRow[],
  keys: readonly string[],
  folded: ReadonlySet<string>,
): readonly Line[] {
  if (keys.length === 0) return rows.map((row) => ({ kind: "run", row }));
  return [...groupBy(rows, (row) => groupTitle(row, keys))].flatMap(([title, members]): Line[] => {
    const isFolded = folded.has(title);
    return [
      { kind: "group", title, rows: members, isFolded },
      ...(isFolded ? [] : members.map((row): Line => ({ kind: "run", row }))),
    ];
  });
}

/** Whether the cells of a column are aligned at the right, and so its heading. */
function isNumeric(column: Column, rows: readonly RunRow[]): boolean {
  return (
    column.kind === "metric" ||
    rows.slice(0, MEASURED).some((row) => typeof column.valueIn(row) === "number")
  );
}

/** Notes take the room that is left. */
function widthOf({ id }: Column, px: number): string {
  return id === "fact:notes" ? `minmax(${px}px, 1fr)` : `${px}px`;
}

function naturalWidth(
  column: Column,
  rows: readonly RunRow[],
  hasBaseline: boolean,
  heads: readonly string[],
): number {
  const texts = widest(rows.slice(0, MEASURED).map(column.textOf));
  const cell =
    column.id === "fact:tags"
      ? texts + DELTA_PX
      : Math.max(widest(heads), column.kind === "metric" && hasBaseline ? texts + DELTA_PX : texts);
  const least =
    column.id in EDITED ? EDITED_PX : Math.max(LEAST_PX, widest([column.title]) + PADDING_PX);
  return Math.ceil(Math.max(least, Math.min(MOST_PX, cell + PADDING_PX)));
}

/** The width of the longest of some texts. */
function widest(texts: readonly string[]): number {
  const context = document.createElement("canvas").getContext("2d")!;
  context.font = `550 13px ${getComputedStyle(document.body).fontFamily}`;
  return context.measureText(
    texts.reduce((longest, text) => (text.length > longest.length ? text : longest), ""),
  ).width;
}

interface GroupRowProps {
  readonly line: Extract<Line, { readonly kind: "group" }>;
  readonly counted: ReadonlySet<RunRow>;
  readonly keys: readonly string[];
  readonly columns: readonly Column[];
  readonly index: number;
  readonly onFold: () => void;
}

/** The mean of a group's runs that count, with half of its 95 % interval; empty for a column without numbers. */
function groupText(
  { rows }: { readonly rows: readonly RunRow[] },
  counted: ReadonlySet<RunRow>,
  column: Column,
): string {
  const { num, mean, half } = meanOf(
    column.kind === "metric" ? rows.filter((row) => counted.has(row)) : [],
    column,
  );
  return num === 0 ? "" : `${formatNumber(mean)}${num > 1 ? ` ± ${formatNumber(half)}` : ""}`;
}

/** A group in one row: how many runs, and the means of their metrics. */
function GroupRow({ line, counted, keys, columns, index, onFold }: GroupRowProps): JSX.Element {
  const title = keys.length === 1 ? `${keys[0]} = ${line.title}` : line.title;
  return (
    <div
      class="compare-row compare-group"
      role="row"
      aria-rowindex={index + 2}
      style={{ transform: `translateY(${index * ROW_PX}px)` }}
    >
      <div class="compare-cell compare-name" role="rowheader">
        <button
          type="button"
          class="compare-run"
          aria-expanded={!line.isFolded}
          title={title}
          onClick={onFold}
        >
          {line.isFolded ? "▸" : "▾"} {title}
        </button>
        <span class="card-note">{line.rows.length}</span>
      </div>
      {columns.map((column) => {
        const text = groupText(line, counted, column);
        return (
          <div
            key={column.id}
            class="compare-cell is-number"
            role="cell"
            title={
              text === "" ? "" : `${text}: the mean of the finished runs and its 95 % interval`
            }
          >
            <span class="compare-text">{text}</span>
          </div>
        );
      })}
    </div>
  );
}

function Head({
  id,
  title,
  isNumber,
  order,
  onOrder,
}: Pick<TableProps, "order" | "onOrder"> & {
  readonly id: string;
  readonly title: string;
  readonly isNumber: boolean;
}): JSX.Element {
  const [isUp, isDown] = [order === id, order === `-${id}`];
  return (
    <div
      class={`compare-cell${isNumber ? " is-number" : ""}`}
      role="columnheader"
      aria-sort={isUp ? "ascending" : isDown ? "descending" : "none"}
    >
      <button
        type="button"
        class="compare-sort"
        title={`Sort by ${title}`}
        onClick={() => onOrder(isUp ? `-${id}` : id)}
      >
        <span>{title}</span>
        {isUp ? " ↑" : isDown ? " ↓" : ""}
      </button>
    </div>
  );
}

function Row({
  page,
  row,
  columns,
  index,
}: {
  readonly page: Page;
  readonly row: RunRow;
  readonly columns: readonly Column[];
  readonly index: number;
}): JSX.Element {
  const { runs, view } = page;
  const isShown = runs.isShown(row.id);
  const baseline = runs.baseline.value;
  return (
    <div
      class={`compare-row${row.id === runs.focus.value?.id ? " is-focus" : ""}`}
      role="row"
      aria-rowindex={index + 2}
      style={{ transform: `translateY(${index * ROW_PX}px)` }}
    >
      <div class="compare-cell compare-name" role="rowheader">
        <label class="check">
          <input
            type="checkbox"
            checked={isShown}
            aria-label={`Show ${runs.label(row.id)} in the charts`}
            title="Show in the charts; with Shift, all up to this one"
            onClick={(event) => runs.toggle(row.id, event.shiftKey)}
            style={{ accentColor: isShown ? slotCss(runs.slot(row.id)) : "" }}
          />
        </label>
        <button
          type="button"
          class="compare-run"
          title={row.name}
          onClick={() => (view.focus.value = row.id)}
        >
          <MiddleText text={runs.label(row.id)} />
        </button>
        {row.nonfinite && (
          <span class="compare-base is-critical" title="The last loss is not finite">
            ✕ not finite
          </span>
        )}
        {baseline?.id === row.id && <span class="compare-base">baseline</span>}
      </div>
      {columns.map((column) => (
        <Cell key={column.id} page={page} column={column} row={row} baseline={baseline} />
      ))}
    </div>
  );
}

function Cell({
  page,
  column,
  row,
  baseline,
}: {
  readonly page: Page;
  readonly column: Column;
  readonly row: RunRow;
  readonly baseline: RunRow | null;
}): JSX.Element {
  const Edited = EDITED[column.id];
  if (Edited !== undefined)
    return (
      <div class="compare-cell" role="cell">
        <Edited page={page} row={row} />
      </div>
    );
  const text = column.textOf(row);
  const value = column.valueIn(row);
  const base =
    column.kind === "metric" && baseline !== null && baseline.id !== row.id
      ? column.valueIn(baseline)
      : null;
  return (
    <div
      class={`compare-cell${typeof value === "number" ? " is-number" : column.kind === "metric" && value !== null ? " is-number is-critical" : ""}`}
      role="cell"
      title={column.fullOf?.(row) ?? text}
    >
      <span class="compare-text">{text}</span>
      {typeof base === "number" && typeof value === "number" && (
        <span class="compare-delta">{formatDelta(value, base)}</span>
      )}
    </div>
  );
}
