/** The runs at the left: filter, groups, and which of them are in the charts. */

import type { JSX } from "preact";
import { useCallback, useState } from "preact/hooks";

import { formatWhole, slotSample } from "../chart/index.ts";
import type { Page } from "../state/page.ts";
import { HEADLINES } from "../state/run-rows.ts";
import type { RunLine } from "../state/runs.ts";
import { Dialog } from "../ui/dialog.tsx";
import { Menu } from "../ui/menu.tsx";
import type { MenuItem } from "../ui/menu.tsx";
import { VirtualList } from "../ui/virtual-list.tsx";
import type { RunRow as Row } from "../wire.ts";
import { MOST_SHOWN } from "../state/runs.ts";
import { EditMenu, showInCharts, TrashDialog } from "./run-edit.tsx";
import { RunFilter } from "./run-filter.tsx";
import { updateLabels, RunRow } from "./run-row.tsx";

/** A finger needs 44 pixels. */
const ROW_HEIGHT = matchMedia("(pointer: coarse)").matches ? 44 : 30;

export function RunList({ page }: { readonly page: Page }): JSX.Element {
  const { runs, view } = page;
  const [renaming, setRenaming] = useState<Row | null>(null);
  const [isTrashOpen, setTrashOpen] = useState(false);
  const count = runs.numLines.value;
  const focused = focusedLine(page, count);
  const onWindow = useCallback((start: number, stop: number) => runs.wantLines(start, stop), [runs]);
  return (
    <div class="runs">
      <RunFilter page={page} />
      <RunTools page={page} onTrash={() => setTrashOpen(true)} />
      {runs.numUnread.value > 0 && count > 0 && <p class="runs-reading" role="status">Reading {formatWhole(runs.numUnread.value)} more runs; the list grows meanwhile.</p>}
      <div class="runs-list">
        {count === 0
          ? <NoLines page={page} />
          : (
            <VirtualList count={count} rowHeight={ROW_HEIGHT} label="Runs" activeIndex={view.focus.value === null ? -1 : focused} tallIndex={focused} keyOf={(index) => keyOf(runs.lineAt(index), index)} onWindow={onWindow}
              row={(index) => <LineOf page={page} line={runs.lineAt(index)} onRename={setRenaming} />} />
          )}
      </div>
      <Rename key={renaming?.id ?? ""} page={page} row={renaming} onClose={() => setRenaming(null)} />
      <TrashDialog page={page} isOpen={isTrashOpen} onClose={() => setTrashOpen(false)} />
    </div>
  );
}

/** The line of the run in focus; -1 where it is not among the rows that are here. */
function focusedLine({ runs }: Page, count: number): number {
  const focus = runs.focus.value?.id;
  for (let index = 0; focus !== undefined && index < Math.min(count, MOST_LOOKED_AT); index++) {
    const line = runs.lineAt(index);
    if (line?.kind === "run" && line.row?.id === focus) return index;
  }
  return -1;
}

const MOST_LOOKED_AT = 3000;

/** Why the list has no lines: what is true of it at this moment. */
function NoLines({ page }: { readonly page: Page }): JSX.Element {
  const { runs, view } = page;
  if (runs.problem.value !== null && runs.numAll.value === 0) return <p class="runs-empty">The list could not be loaded.</p>;
  if (!runs.isLoaded.value) return <p class="runs-empty" aria-busy="true">Loading runs…</p>;
  if (runs.numAll.value === 0) return <p class="runs-empty">No runs yet.</p>;
  const missing = runs.missing.value;
  if (missing?.kind === "project") return <p class="runs-empty">There is no project “{missing.name}”. <button type="button" class="link" onClick={() => (view.project.value = null)}>All projects</button></p>;
  if (runs.filterProblem.value !== null) return <p class="runs-empty">The filter is not complete.</p>;
  if (!runs.isSettled.value) return <p class="runs-empty" aria-busy="true">Searching…</p>;
  if (runs.numUnread.value > 0) return <p class="runs-empty" aria-busy="true">Reading {formatWhole(runs.numUnread.value)} runs for this filter…</p>;
  if (view.filter.value.trim() !== "") {
    return <p class="runs-empty">No run matches this filter. <button type="button" class="link" onClick={() => (view.filter.value = "")}>Clear it</button></p>;
  }
  return <p class="runs-empty">All runs are hidden. <button type="button" class="link" onClick={() => (view.text("hidden").value = "1")}>Show them</button></p>;
}

function keyOf(line: RunLine | undefined, index: number): string {
  if (line === undefined) return `line ${index}`;
  return line.kind === "run" ? (line.row?.id ?? `row ${line.index}`) : `group ${line.title}`;
}

interface LineProps {
  readonly page: Page;
  readonly line: RunLine | undefined;
  readonly onRename: (row: Row) => void;
}

function LineOf({ page, line, onRename }: LineProps): JSX.Element {
  if (line?.kind === "run" && line.row !== undefined) return <RunRow page={page} row={line.row} onRename={onRename} />;
  if (line === undefined || line.kind === "run") return <div class="run is-coming" aria-busy="true"><i /></div>;
  const { groupKeys } = page.runs;
  return (
    <div class="run-group">
      {line.rows?.[0] !== undefined && page.view.spread.value !== "none" && <i class="run-group-line" style={{ background: slotSample(page.runs.slot(line.rows[0].id)) }} />}
      {groupKeys.value.length === 1 && <span class="run-group-key">{groupKeys.value[0]} =</span>}
      <b title={line.title}>{line.title}</b>
      <span class="card-note">{formatWhole(line.count)}</span>
      {line.rows !== null && page.view.spread.value === "none" && <button type="button" class="button is-quiet" title="Show only this group" onClick={() => showInCharts(page, line.rows!.map(({ id }) => id))}>only</button>}
    </div>
  );
}

const ORDERS: readonly (readonly [string, string])[] = [
  ["-created", "Newest first"], ["created", "Oldest first"], ["-updated", "Last updated first"], ["name", "By name"],
  ...HEADLINES.flatMap((role) => {
    const name = role.replace("role:", "").replace("_", " ");
    return [[role, `Smallest ${name}`], [`-${role}`, `Largest ${name}`]] as const;
  }),
];

function RunTools({ page, onTrash }: { readonly page: Page; readonly onTrash: () => void }): JSX.Element {
  const { view, runs, notifier, source } = page;
  const hidden = view.text("hidden");
  const isMany = runs.numFitting.value > MOST_SHOWN && source.sweep.curves !== null;
  const more: (MenuItem | "divider")[] = [
    { label: "Show all matches", isOn: view.isAll.value, ...(isMany ? { hint: "as quantiles" } : {}), run: runs.showAll },
    { label: "Show the newest", isOn: view.shown.value === null && !view.isAll.value, run: runs.showNewest },
    { label: "Show none", run: () => runs.showOnly([]) },
    "divider",
    { label: "List hidden runs", isOn: hidden.value === "1", run: () => (hidden.value = hidden.value === "1" ? "" : "1") },
  ];
  if (source.connection.value !== "archive") more.push({ label: "Notify when a run ends", isOn: notifier.isOn.value, isDisabled: notifier.obstacle !== null, ...(notifier.obstacle === null ? {} : { hint: notifier.obstacle }), run: () => void notifier.toggle() });
  if (page.selection.actions !== null) more.push({ label: "Trash…", run: onTrash });
  return (
    <div class="runs-tools">
      <span class="runs-count">{runs.isLoaded.value && runs.numAll.value > 0 ? `${formatWhole(runs.numShown.value)} of ${formatWhole(runs.numFitting.value)} shown` : ""}</span>
      <span class="card-space" />
      <EditMenu page={page} />
      <Menu label="Order of runs" items={ORDERS.map(([key, label]) => ({ label, isOn: view.order.value === key, run: () => (view.order.value = key) }))}>↕</Menu>
      <Menu label="Which runs are listed and shown" items={more}>⋯</Menu>
    </div>
  );
}

interface RenameProps {
  readonly page: Page;
  readonly row: Row | null;
  readonly onClose: () => void;
}

function Rename({ page, row, onClose }: RenameProps): JSX.Element {
  const [name, setName] = useState(row?.name ?? "");
  return (
    <Dialog title="Rename" isOpen={row !== null} onClose={onClose}>
      <form class="rename" onSubmit={(event) => {
        event.preventDefault();
        if (row !== null) void updateLabels(page, row, { name: name.trim() === "" ? null : name.trim() });
        onClose();
      }}>
        <label>Name on this page and in lists <input type="text" value={name} maxLength={200} autoFocus onInput={(event) => setName(event.currentTarget.value)} /></label>
        <p class="card-note">The recorded name is kept; an empty name restores it.</p>
        <button type="submit" class="button is-primary">Rename</button>
      </form>
    </Dialog>
  );
}
