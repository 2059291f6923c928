/** Runs in rows, what they have in columns. Only the rows in view are on the page. */

import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";

import { formatDelta, formatNumber, slotCss } from "../chart/index.ts";
import { groupBy } from "../state/group-by.ts";
import { groupTitle } from "../state/group-keys.ts";
import type { Page } from "../state/page.ts";
import { MiddleText } from "../ui/middle-text.tsx";
import { useScrollView, windowOf } from "../ui/window.ts";
import type { RunRow } from "../wire.ts";
import { meanOf } from "./compare-columns.ts";
import type { Column } from "./compare-columns.ts";
import { isUnfinished } from "./parts/unfinished.tsx";

export interface CompareTableProps {
  readonly page: Page;
  readonly rows: readonly RunRow[];
  readonly columns: readonly Column[];
  /** Id of the column that rows are sorted by, with a minus in front to turn it around. */
  readonly order: string;
  readonly onOrder: (order: string) => void;
  readonly onHide: (id: string) => void;
  /** What each column keeps; null hides the fields for it. */
  readonly filters: Readonly<Record<string, string>> | null;
  readonly onFilter: (id: string, text: string) => void;
}

type Line = { readonly kind: "run"; readonly row: RunRow } | { readonly kind: "group"; readonly title: string; readonly rows: readonly RunRow[]; readonly isFolded: boolean };

const ROW_PX = 30;
const OVERSCAN = 10;
const NAME_PX = 250;
/** On a phone there has to be room for more than the names. */
const NAME_ON_PHONE_PX = 150;
const LEAST_PX = 60;
const MOST_PX = 260;
const PER_CHARACTER_PX = 7.4;
const PADDING_PX = 24;
/** Widths are those of the first rows. */
const MEASURED = 200;

export function CompareTable({ page, rows, columns, order, onOrder, onHide, filters, onFilter }: CompareTableProps): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const view = useScrollView(frame);
  const [widths, setWidths] = useState<Readonly<Record<string, number>>>({});
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const areFolded = page.view.text("compare-folded").value === "1";
  const lines = linesOf(page, rows, (title) => folded.has(title) !== areFolded);
  const hasBaseline = page.runs.baseline.value !== null;
  const isGrouped = page.runs.groupKeys.value.length > 0;
  const natural = useMemo(() => new Map(columns.map((column) => [column.id, naturalWidth(column, rows, hasBaseline, isGrouped)])), [columns, rows, hasBaseline, isGrouped]);
  const widthOf = (column: Column): number => widths[column.id] ?? natural.get(column.id)!;
  const nameWidth = widths["name"] ?? (matchMedia("(max-width: 640px)").matches ? NAME_ON_PHONE_PX : NAME_PX);
  const template = `${nameWidth}px ${columns.map((column) => `${widthOf(column)}px`).join(" ")}`;
  const { start, stop } = windowOf({ ...view, rowHeight: ROW_PX, count: lines.length, overscan: OVERSCAN });
  const resize = (id: string, width: number): void => setWidths({ ...widths, [id]: Math.max(LEAST_PX, width) });
  const fold = (title: string): void => setFolded(new Set(folded.has(title) ? [...folded].filter((one) => one !== title) : [...folded, title]));
  return (
    <>
      <div ref={frame} class="compare" role="table" aria-label="Runs" aria-rowcount={lines.length + 1} tabIndex={0} style={{ "--columns": template }}>
        <div class="compare-top">
          <div class="compare-row compare-head" role="row">
            <Head id="name" title="run" order={order} width={nameWidth} onOrder={onOrder} onResize={resize} />
            {columns.map((column) => (
              <Head key={column.id} id={column.id} title={column.title} isNumber={isNumeric(column, rows)} order={order} width={widthOf(column)} onOrder={onOrder} onResize={resize} onHide={onHide} />
            ))}
          </div>
          {filters !== null && (
            <div class="compare-row compare-filters" role="row">
              {[{ id: "name", title: "run" }, ...columns].map(({ id, title }) => (
                <div key={id} class="compare-cell" role="cell">
                  <input type="text" aria-label={`Filter by ${title}`} title="< 3e-4   0.1..0.5   = 12   text   !text" placeholder="filter" value={filters[id] ?? ""} spellcheck={false}
                    onInput={(event) => onFilter(id, event.currentTarget.value)} />
                </div>
              ))}
            </div>
          )}
        </div>
        <div class="compare-space" style={{ height: `${lines.length * ROW_PX}px` }}>
          {lines.slice(start, stop).map((line, index) => (line.kind === "run"
            ? <Row key={line.row.id} page={page} row={line.row} columns={columns} index={start + index} />
            : <GroupRow key={`group ${line.title}`} page={page} line={line} columns={columns} index={start + index} onFold={() => fold(line.title)} />))}
        </div>
      </div>
      {lines.length === 0 && <p class="card-note">No run matches the filters of the columns.</p>}
    </>
  );
}

function linesOf({ runs }: Page, rows: readonly RunRow[], isFoldedAt: (title: string) => boolean): readonly Line[] {
  const keys = runs.groupKeys.value;
  if (keys.length === 0) return rows.map((row) => ({ kind: "run", row }));
  return [...groupBy(rows, (row) => groupTitle(row, keys))].flatMap(([title, members]): Line[] => {
    const isFolded = isFoldedAt(title);
    return [{ kind: "group", title, rows: members, isFolded }, ...(isFolded ? [] : members.map((row): Line => ({ kind: "run", row })))];
  });
}

/** Whether the cells of a column stand at the right: its heading stands above them. */
function isNumeric(column: Column, rows: readonly RunRow[]): boolean {
  return column.kind === "metric" || rows.slice(0, MEASURED).some((row) => typeof column.valueOf(row) === "number");
}

function naturalWidth(column: Column, rows: readonly RunRow[], hasBaseline: boolean, isGrouped: boolean): number {
  const longest = rows.slice(0, MEASURED).reduce((length, row) => Math.max(length, column.textOf(row).length), 0);
  const delta = hasBaseline && column.kind === "metric" ? 9 : 0;
  return Math.max(LEAST_PX, Math.min(MOST_PX, Math.max(column.title.length + 5, longest + delta, isGrouped && column.kind === "metric" ? 2 * longest + 5 : 0) * PER_CHARACTER_PX + PADDING_PX));
}

interface GroupRowProps {
  readonly page: Page;
  readonly line: Extract<Line, { readonly kind: "group" }>;
  readonly columns: readonly Column[];
  readonly index: number;
  readonly onFold: () => void;
}

/** A group in one row: how many runs, and mean ± standard deviation of their metrics. */
function GroupRow({ page, line, columns, index, onFold }: GroupRowProps): JSX.Element {
  const keys = page.runs.groupKeys.value;
  const title = keys.length === 1 ? `${keys[0]} = ${line.title}` : line.title;
  const isEach = page.view.withUnfinished.value || page.runs.fitting.value.every(isUnfinished);
  const counted = isEach ? line.rows : line.rows.filter((row) => !isUnfinished(row));
  return (
    <div class="compare-row compare-group" role="row" aria-rowindex={index + 2} style={{ transform: `translateY(${index * ROW_PX}px)` }}>
      <div class="compare-cell compare-name" role="rowheader">
        <button type="button" class="compare-run" aria-expanded={!line.isFolded} title={title} onClick={onFold}>{line.isFolded ? "▸" : "▾"} {title}</button>
        <span class="card-note">{line.rows.length}</span>
      </div>
      {columns.map((column) => {
        const { num, mean, std } = column.kind === "metric" ? meanOf(counted, column) : { num: 0, mean: 0, std: 0 };
        const text = num === 0 ? "" : `${formatNumber(mean)}${num > 1 ? ` ± ${formatNumber(std)}` : ""}`;
        const of = num === line.rows.length ? "" : ` (${num} of ${line.rows.length} runs count: finished, with a number)`;
        return <div key={column.id} class="compare-cell is-number" role="cell" title={text === "" ? "" : `mean ± standard deviation${of}: ${text}`}><span class="compare-text">{text}</span></div>;
      })}
    </div>
  );
}

interface HeadProps {
  readonly id: string;
  readonly title: string;
  readonly isNumber?: boolean;
  readonly order: string;
  readonly width: number;
  readonly onOrder: (order: string) => void;
  readonly onResize: (id: string, width: number) => void;
  readonly onHide?: (id: string) => void;
}

function Head({ id, title, isNumber = false, order, width, onOrder, onResize, onHide }: HeadProps): JSX.Element {
  const grip = useRef<{ readonly x: number; readonly width: number } | null>(null);
  const isUp = order === id;
  const isDown = order === `-${id}`;
  return (
    <div class={`compare-cell${isNumber ? " is-number" : ""}`} role="columnheader" aria-sort={isUp ? "ascending" : isDown ? "descending" : "none"}>
      <button type="button" class="compare-sort" title={`Sort by ${title}`} onClick={() => onOrder(isUp ? `-${id}` : id)}>
        <span>{title}</span>{isUp ? " ↑" : isDown ? " ↓" : ""}
      </button>
      {onHide !== undefined && <button type="button" class="compare-hide" aria-label={`Hide ${title}`} title="Hide" onClick={() => onHide(id)}>✕</button>}
      <span class="compare-grip" role="separator" aria-orientation="vertical" aria-label={`Width of ${title}`} aria-valuenow={Math.round(width)} tabIndex={0}
        onPointerDown={(event) => {
          event.preventDefault();
          event.currentTarget.setPointerCapture(event.pointerId);
          grip.current = { x: event.clientX, width };
        }}
        onPointerMove={(event) => grip.current !== null && onResize(id, grip.current.width + event.clientX - grip.current.x)}
        onPointerUp={() => (grip.current = null)} onPointerCancel={() => (grip.current = null)}
        onKeyDown={(event) => {
          if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
          event.preventDefault();
          onResize(id, width + (event.key === "ArrowLeft" ? -16 : 16));
        }} />
    </div>
  );
}

function Row({ page, row, columns, index }: { readonly page: Page; readonly row: RunRow; readonly columns: readonly Column[]; readonly index: number }): JSX.Element {
  const { runs, view } = page;
  const isShown = runs.shownIds.value.has(row.id);
  const baseline = runs.baseline.value;
  return (
    <div class={`compare-row${row.id === runs.focus.value?.id ? " is-focus" : ""}`} role="row" aria-rowindex={index + 2} style={{ transform: `translateY(${index * ROW_PX}px)` }}>
      <div class="compare-cell compare-name" role="rowheader">
        <label class="compare-mark" title={isShown ? "In the charts" : "Not in the charts"}>
          <input type="checkbox" checked={isShown} aria-label={`Show ${runs.label(row.id)} in the charts`} onChange={() => runs.toggle(row.id)}
            style={{ accentColor: isShown ? slotCss(runs.slot(row.id)) : "" }} />
        </label>
        <button type="button" class="compare-run" title={row.name} onClick={() => (view.focus.value = row.id)}><MiddleText text={runs.label(row.id)} /></button>
        {row.nonfinite && <span class="compare-base is-critical" title="The last loss is not finite">✕ not finite</span>}
        {baseline?.id === row.id && <span class="compare-base">baseline</span>}
      </div>
      {columns.map((column) => <Cell key={column.id} column={column} row={row} baseline={baseline} />)}
    </div>
  );
}

function Cell({ column, row, baseline }: { readonly column: Column; readonly row: RunRow; readonly baseline: RunRow | null }): JSX.Element {
  const text = column.textOf(row);
  const value = column.valueOf(row);
  const base = column.kind === "metric" && baseline !== null && baseline.id !== row.id ? column.valueOf(baseline) : null;
  return (
    <div class={`compare-cell${typeof value === "number" ? " is-number" : column.kind === "metric" && value !== null ? " is-number is-critical" : ""}`} role="cell" title={column.fullOf?.(row) ?? text}>
      <span class="compare-text">{text}</span>
      {typeof base === "number" && typeof value === "number" && <span class="compare-delta">{formatDelta(value, base)}</span>}
    </div>
  );
}
