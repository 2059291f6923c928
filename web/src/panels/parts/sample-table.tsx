/** A table that a run keeps as a file, such as the prompts and completions of a step: sorted, searched, row by row as a card, or drawn as a chart. */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { formatBytes, formatWhole } from "../../chart/index.ts";
import type { Page } from "../../state/page.ts";
import { Dialog } from "../../ui/dialog.tsx";
import { download } from "../../ui/download.ts";
import { SearchBox } from "../../ui/search-box.tsx";
import { Segmented } from "../../ui/segmented.tsx";
import { scrollFor, useScrollView, windowOf } from "../../ui/window.ts";
import { ChartSpec, parseChart } from "./chart-spec.tsx";
import {
  cellText,
  chosenRows,
  columnKind,
  columnWidth,
  fileOf,
  isLong,
  numberOf,
  parseTable,
  searchTexts,
  shownText,
  tableCsv,
} from "./table-data.ts";
import { sharpen } from "./sample-picture.tsx";
import type { ColumnKind, FileCell, TableData, TableView } from "./table-data.ts";
import "./sample-table.css";

export const TABLE_TYPE = "application/vnd.epochal.table+json";
/** A larger file is a download. */
const MOST_BYTES = 64 * 1024 * 1024;
/** Browsers cannot scroll through more pixels. */
const MOST_ROWS = 200_000;
const OVERSCAN = 8;
const ROW_PX: Readonly<Record<ColumnKind, number>> = {
  number: 30,
  short: 30,
  audio: 46,
  long: 70,
  picture: 84,
};
const NO_VIEW: TableView = { sort: null, search: "", filters: {} };
/** Order and filters by run and name: they outlast a table that is scrolled out of sight. */
const views = new Map<string, TableView>();

interface SampleTableProps {
  readonly page: Page;
  readonly run: string;
  readonly file: string;
  readonly bytes: number | null;
  /** Tables of one name have the same order and filters. */
  readonly name?: string;
  /** How to draw it, as the record has it. */
  readonly chart?: unknown;
}

export function SampleTable({
  page,
  run,
  file,
  bytes,
  name = file,
  chart,
}: SampleTableProps): JSX.Element {
  const [table, setTable] = useState<TableData | string | null>(null);
  const [isTable, setIsTable] = useState(false);
  const isTooLarge = bytes !== null && bytes > MOST_BYTES;
  useEffect(() => {
    if (isTooLarge) return undefined;
    let isWanted = true;
    page.source.blobText(run, file).then(
      (text) => isWanted && setTable(parseTable(text) ?? "This file is not a table."),
      (error: unknown) =>
        isWanted && setTable(error instanceof Error ? error.message : String(error)),
    );
    return () => {
      isWanted = false;
    };
  }, [page, run, file, isTooLarge]);
  const link = (
    <a href={page.source.blobUrl(run, file)} download={file}>
      Download it as JSON.
    </a>
  );
  if (isTooLarge)
    return (
      <p role="status">
        {`This table has ${formatBytes(bytes)}, and the page shows up to ${formatBytes(MOST_BYTES)}. `}
        {link}
      </p>
    );
  // While the table of another step is loading, the one before stays.
  if (table === null)
    return (
      <p role="status" aria-busy>
        Loading…
      </p>
    );
  if (typeof table === "string") return <p role="status">{table}</p>;
  const spec = parseChart(chart, table);
  return (
    <div class="sheet">
      {spec !== null && (
        <Segmented
          label="Show"
          value={isTable ? "table" : "chart"}
          onChange={(value) => setIsTable(value === "table")}
          choices={[
            { value: "chart", label: "Chart" },
            { value: "table", label: "Table" },
          ]}
        />
      )}
      {spec !== null && !isTable ? (
        <ChartSpec table={table} chart={spec} />
      ) : (
        <Sheet page={page} run={run} file={file} name={name} table={table} />
      )}
      {table.rows.length > MOST_ROWS && (
        <p role="status">
          {`The page shows the first ${formatWhole(MOST_ROWS)} of ${formatWhole(table.rows.length)} rows. `}
          {link}
        </p>
      )}
    </div>
  );
}

interface SheetProps extends Pick<SampleTableProps, "page" | "run" | "file"> {
  readonly name: string;
  readonly table: TableData;
}

function Sheet({ page, run, file, name: title, table: whole }: SheetProps): JSX.Element {
  const key = `${run} ${title}`;
  const [view, setView] = useState(views.get(key) ?? NO_VIEW);
  const [isFiltering, setFiltering] = useState(Object.keys(view.filters).length > 0);
  const [active, setActive] = useState(-1);
  const [opened, setOpened] = useState<FileCell | "row" | null>(null);
  const frame = useRef<HTMLDivElement>(null);
  const scrolled = useScrollView(frame);
  const table = useMemo(
    () =>
      whole.rows.length > MOST_ROWS ? { ...whole, rows: whole.rows.slice(0, MOST_ROWS) } : whole,
    [whole],
  );
  const kinds = useMemo(() => table.columns.map((_, column) => columnKind(table, column)), [table]);
  const texts = useMemo(() => searchTexts(table), [table]);
  const chosen = useMemo(() => chosenRows(table, view, texts), [table, view, texts]);
  const widths = useMemo(() => widthsOf(table, kinds), [table, kinds]);
  const rowHeight = Math.max(...kinds.map((kind) => ROW_PX[kind]), 30);
  const isWide = kinds.includes("long") || kinds.length > 5;
  const { start, stop } = windowOf({
    ...scrolled,
    rowHeight,
    count: chosen.length,
    overscan: OVERSCAN,
  });
  const change = (next: Partial<TableView>): void => {
    views.set(key, { ...view, ...next });
    setView({ ...view, ...next });
    setActive(-1);
  };
  const moveTo = (index: number): void => {
    const next = Math.max(0, Math.min(chosen.length - 1, index));
    const element = frame.current!;
    setActive(next);
    // The heading lies over the rows.
    const viewHeight =
      element.clientHeight - (element.firstElementChild as HTMLElement).offsetHeight;
    element.scrollTop = scrollFor(next, { scrollTop: element.scrollTop, viewHeight, rowHeight });
  };
  const press = (event: KeyboardEvent): void => {
    const isCard = opened === "row";
    if (
      opened !== null
        ? !isCard || (event.target as Element).closest("audio, video") !== null
        : event.target !== frame.current
    )
      return;
    const pageful = Math.max(1, Math.floor(scrolled.viewHeight / rowHeight) - 2);
    const steps: Readonly<Record<string, number>> = isCard
      ? { ArrowRight: 1, ArrowLeft: -1 }
      : {
          ArrowDown: 1,
          ArrowUp: -1,
          PageDown: pageful,
          PageUp: -pageful,
          Home: -Infinity,
          End: Infinity,
        };
    const step = steps[event.key];
    if (step !== undefined)
      moveTo(active < 0 && step > 0 && step < Infinity ? step - 1 : active + step);
    else if (event.key === "Enter" && active >= 0 && !isCard) setOpened("row");
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const row = table.rows[chosen[active] ?? -1];
  return (
    <div class="sheet" onKeyDown={press}>
      <div class="pane-bar">
        <SearchBox
          label="Search all cells"
          query={view.search}
          count={countText(chosen.length, table.rows.length)}
          onChange={(search) => change({ search })}
        />
        <label class="check">
          <input
            type="checkbox"
            checked={isFiltering}
            onChange={(event) => {
              setFiltering(event.currentTarget.checked);
              if (!event.currentTarget.checked) change({ filters: {} });
            }}
          />
          Filter columns
        </label>
        <button
          type="button"
          class="button"
          aria-label="Download CSV"
          title="Download the rows that are shown, with every digit"
          onClick={() =>
            download(`${title}.csv`, tableCsv(table, chosen), "text/csv;charset=utf-8")
          }
        >
          CSV
        </button>
      </div>
      <div
        ref={frame}
        class={`sheet-frame${isWide ? " is-wide" : ""}`}
        role="grid"
        aria-label={title}
        aria-rowcount={chosen.length + 1}
        aria-colcount={table.columns.length}
        tabIndex={0}
        aria-activedescendant={active >= start && active < stop ? `${file}-${active}` : undefined}
        style={widths}
      >
        <div class="sheet-top">
          <div class="sheet-row" role="row">
            {table.columns.map((name, column) => (
              <Head
                key={column}
                name={name}
                kind={kinds[column]!}
                sort={view.sort?.column === column ? view.sort.isDown : null}
                onSort={(isDown) => change({ sort: isDown === null ? null : { column, isDown } })}
              />
            ))}
          </div>
          {isFiltering && (
            <div class="sheet-row" role="row">
              {table.columns.map((name, column) => (
                <div key={column} class="sheet-cell" role="gridcell">
                  <input
                    type="text"
                    aria-label={`Filter by ${name}`}
                    title="> 0.5   0.1..0.5   = 12   text   !text"
                    placeholder={kinds[column] === "number" ? "> 0.5" : "text"}
                    value={view.filters[column] ?? ""}
                    spellcheck={false}
                    onInput={(event) =>
                      change({ filters: { ...view.filters, [column]: event.currentTarget.value } })
                    }
                  />
                </div>
              ))}
            </div>
          )}
        </div>
        <div class="sheet-space" style={{ height: `${chosen.length * rowHeight}px` }}>
          {chosen.slice(start, stop).map((index, offset) => (
            <div
              key={index}
              id={`${file}-${start + offset}`}
              role="row"
              aria-rowindex={start + offset + 2}
              class={`sheet-row${start + offset === active ? " is-active" : ""}`}
              style={{
                height: `${rowHeight}px`,
                transform: `translateY(${(start + offset) * rowHeight}px)`,
              }}
              onClick={() => {
                // Whoever selects text to copy it does not want the card.
                if (!document.getSelection()!.isCollapsed) return;
                setActive(start + offset);
                setOpened("row");
              }}
            >
              {table.columns.map((_, column) => (
                <Cell
                  key={column}
                  page={page}
                  run={run}
                  value={table.rows[index]![column]}
                  kind={kinds[column]!}
                  onOpen={setOpened}
                />
              ))}
            </div>
          ))}
        </div>
        {chosen.length === 0 && (
          <p class="card-note">
            {table.rows.length === 0 ? "This table has no rows." : "No row matches."}
          </p>
        )}
      </div>
      <Dialog
        title={
          opened === "row"
            ? `Row ${formatWhole((chosen[active] ?? 0) + 1)}`
            : (opened?.caption ?? "")
        }
        isOpen={opened !== null}
        isFull={opened !== "row"}
        onClose={() => setOpened(null)}
      >
        {opened === "row" && row !== undefined && (
          <>
            <RowCard page={page} run={run} columns={table.columns} row={row} />
            <div class="pane-bar row-card-bar">
              <button
                type="button"
                class="button"
                disabled={active <= 0}
                title="←"
                onClick={() => moveTo(active - 1)}
              >
                Previous
              </button>
              <button
                type="button"
                class="button"
                disabled={active >= chosen.length - 1}
                title="→"
                onClick={() => moveTo(active + 1)}
              >
                Next
              </button>
              <span class="card-note">{`${formatWhole(active + 1)} of ${formatWhole(chosen.length)}`}</span>
            </div>
          </>
        )}
        {opened !== null && opened !== "row" && (
          <img
            class="sheet-full"
            src={page.source.blobUrl(run, opened.file)}
            alt={opened.caption ?? ""}
          />
        )}
      </Dialog>
    </div>
  );
}

function countText(num: number, all: number): string {
  return num === all ? formatWhole(all) : `${formatWhole(num)} of ${formatWhole(all)}`;
}

/** Columns of long texts take what the others leave. */
function widthsOf(table: TableData, kinds: readonly ColumnKind[]): Record<string, string> {
  const isNarrow = matchMedia("(max-width: 640px)").matches;
  const widths = kinds.map((kind, column) =>
    Math.round(columnWidth(table, column, kind, isNarrow)),
  );
  const growing = kinds.includes("long") ? "long" : null;
  const columns = widths.map((width, column) =>
    growing === null || kinds[column] === growing ? `minmax(${width}px, ${width}fr)` : `${width}px`,
  );
  return {
    "--columns": columns.join(" "),
    "--width": `${widths.reduce((sum, width) => sum + width, 0)}px`,
  };
}

interface HeadProps {
  readonly name: string;
  readonly kind: ColumnKind;
  /** Whether the table is sorted by it downwards; null where it is not. */
  readonly sort: boolean | null;
  readonly onSort: (isDown: boolean | null) => void;
}

/** The smallest come first, then the largest; a third press restores the order of the file. */
function Head({ name, kind, sort, onSort }: HeadProps): JSX.Element {
  return (
    <div
      class={`sheet-cell is-${kind}`}
      role="columnheader"
      aria-sort={sort === null ? "none" : sort ? "descending" : "ascending"}
    >
      <button
        type="button"
        class="sheet-sort"
        title={`Sort by ${name}`}
        onClick={() => onSort(sort === null ? false : sort ? null : true)}
      >
        <span>{name}</span>
        <span aria-hidden>{sort === null ? "" : sort ? " ↓" : " ↑"}</span>
      </button>
    </div>
  );
}

interface CellProps {
  readonly page: Page;
  readonly run: string;
  readonly value: unknown;
  readonly kind: ColumnKind;
  readonly onOpen: (file: FileCell) => void;
}

function Cell({ page, run, value, kind, onOpen }: CellProps): JSX.Element {
  const file = fileOf(value);
  const isNumber = numberOf(value) !== null && kind !== "long";
  return (
    <div
      class={`sheet-cell is-${isNumber ? "number" : kind}`}
      role="gridcell"
      title={isNumber ? String(value) : undefined}
    >
      {file === null ? (
        <span>{shownText(value)}</span>
      ) : (
        <Media page={page} run={run} file={file} onOpen={onOpen} />
      )}
    </div>
  );
}

/** A small picture that opens in full, a player, or a link; `onOpen` is absent where it is shown in full already. */
function Media({
  page,
  run,
  file,
  onOpen,
}: Pick<CellProps, "page" | "run"> & {
  readonly file: FileCell;
  readonly onOpen?: CellProps["onOpen"];
}): JSX.Element {
  const address = page.source.blobUrl(run, file.file);
  const label = file.caption ?? "";
  const stop = (event: Event): void => event.stopPropagation();
  if (file.media_type.startsWith("image/")) {
    const picture = <img src={address} alt={label} title={label} loading="lazy" onLoad={sharpen} />;
    return onOpen === undefined ? (
      picture
    ) : (
      <button
        type="button"
        class="sheet-picture"
        aria-label={`Open ${label || "the picture"}`}
        onClick={(event) => {
          stop(event);
          onOpen(file);
        }}
      >
        {picture}
      </button>
    );
  }
  if (file.media_type.startsWith("audio/"))
    return <audio controls preload="none" src={address} aria-label={label} onClick={stop} />;
  if (file.media_type.startsWith("video/"))
    return (
      <video
        controls={onOpen === undefined}
        muted
        preload="metadata"
        src={address}
        aria-label={label}
        onLoadedMetadata={sharpen}
      />
    );
  return (
    <a href={address} download={file.file} onClick={stop}>
      {label || file.file}
    </a>
  );
}

/** A row to be read: its cells under each other, short ones beside each other. */
function RowCard({
  page,
  run,
  columns,
  row,
}: Pick<CellProps, "page" | "run"> & {
  readonly columns: readonly string[];
  readonly row: readonly unknown[];
}): JSX.Element {
  return (
    <dl class="row-card">
      {columns.map((name, column) => {
        const file = fileOf(row[column]);
        const text = cellText(row[column]);
        return (
          <div key={column} class={file !== null || isLong(text) ? "is-long" : ""}>
            <dt>{name}</dt>
            <dd>
              {file === null ? (
                text
              ) : (
                <>
                  <Media page={page} run={run} file={file} />
                  {file.caption}
                </>
              )}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}
