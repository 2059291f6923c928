/** Runs in rows, what they have in columns. Only the rows in view are on the page. */

import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";

import { formatDelta, slotCss } from "../chart/index.ts";
import type { Page } from "../state/page.ts";
import { useScrollView, windowOf } from "../ui/window.ts";
import type { RunRow } from "../wire.ts";
import type { Column } from "./compare-columns.ts";

export interface CompareTableProps {
  readonly page: Page;
  readonly rows: readonly RunRow[];
  readonly columns: readonly Column[];
  /** Id of the column that rows are sorted by, with a minus in front to turn it around. */
  readonly order: string;
  readonly onOrder: (order: string) => void;
  readonly onHide: (id: string) => void;
}

const ROW_PX = 30;
const OVERSCAN = 10;
const NAME_PX = 200;
const LEAST_PX = 60;

export function CompareTable({ page, rows, columns, order, onOrder, onHide }: CompareTableProps): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const view = useScrollView(frame);
  const [widths, setWidths] = useState<Readonly<Record<string, number>>>({});
  const widthOf = (column: Column): number => widths[column.id] ?? Math.max(80, Math.min(180, column.title.length * 7.5 + 34));
  const template = `${widths["name"] ?? NAME_PX}px ${columns.map((column) => `${widthOf(column)}px`).join(" ")}`;
  const { start, stop } = windowOf({ ...view, rowHeight: ROW_PX, count: rows.length, overscan: OVERSCAN });
  const resize = (id: string, width: number): void => setWidths({ ...widths, [id]: Math.max(LEAST_PX, width) });
  return (
    <div ref={frame} class="compare" role="table" aria-label="Runs" aria-rowcount={rows.length + 1} tabIndex={0} style={{ "--columns": template }}>
      <div class="compare-row compare-head" role="row">
        <Head id="name" title="run" order={order} width={widths["name"] ?? NAME_PX} onOrder={onOrder} onResize={resize} />
        {columns.map((column) => (
          <Head key={column.id} id={column.id} title={column.title} order={order} width={widthOf(column)} onOrder={onOrder} onResize={resize} onHide={onHide} />
        ))}
      </div>
      <div class="compare-space" style={{ height: `${rows.length * ROW_PX}px` }}>
        {rows.slice(start, stop).map((row, index) => (
          <Row key={row.id} page={page} row={row} columns={columns} index={start + index} />
        ))}
      </div>
    </div>
  );
}

interface HeadProps {
  readonly id: string;
  readonly title: string;
  readonly order: string;
  readonly width: number;
  readonly onOrder: (order: string) => void;
  readonly onResize: (id: string, width: number) => void;
  readonly onHide?: (id: string) => void;
}

function Head({ id, title, order, width, onOrder, onResize, onHide }: HeadProps): JSX.Element {
  const grip = useRef<{ readonly x: number; readonly width: number } | null>(null);
  const isUp = order === id;
  const isDown = order === `-${id}`;
  return (
    <div class="compare-cell" role="columnheader" aria-sort={isUp ? "ascending" : isDown ? "descending" : "none"}>
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
        <button type="button" class="compare-run" title={row.name} onClick={() => (view.focus.value = row.id)}>{runs.label(row.id)}</button>
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
    <div class={`compare-cell${typeof value === "number" ? " is-number" : column.kind === "metric" && value !== null ? " is-number is-critical" : ""}`} role="cell" title={text}>
      <span class="compare-text">{text}</span>
      {typeof base === "number" && typeof value === "number" && <span class="compare-delta">{formatDelta(value, base)}</span>}
    </div>
  );
}
