/** The runs at the left: filter, groups, and which of them are in the charts. */

import type { JSX } from "preact";
import { useCallback, useState } from "preact/hooks";

import { formatWhole, slotSample } from "../chart/index.ts";
import { groupName } from "../state/group-keys.ts";
import type { Page } from "../state/page.ts";
import { HEADLINES } from "../state/run-rows.ts";
import type { RunLine } from "../state/runs.ts";
import { Dialog } from "../ui/dialog.tsx";
import { Menu } from "../ui/menu.tsx";
import type { MenuItem } from "../ui/menu.tsx";
import { VirtualList } from "../ui/virtual-list.tsx";
import type { RunRow as Row } from "../wire.ts";
import { isCrowd } from "../state/crowd.ts";
import { MOST_SHOWN } from "../state/runs.ts";
import { BulkBar, showInCharts, TrashDialog } from "./run-bulk.tsx";
import { RunFilter } from "./run-filter.tsx";
import { updateLabels, RunRow } from "./run-row.tsx";

/** A finger needs 44 pixels. */
const ROW_HEIGHT = matchMedia("(pointer: coarse)").matches ? 44 : 30;
const MOST_KEYS = 200;

export function RunList({ page }: { readonly page: Page }): JSX.Element {
  const { runs, view } = page;
  const [renaming, setRenaming] = useState<Row | null>(null);
  const [isTrashOpen, setTrashOpen] = useState(false);
  const count = runs.numLines.value;
  const active = activeLine(page, count);
  const onWindow = useCallback((start: number, stop: number) => runs.wantLines(start, stop), [runs]);
  void view.focus.value;
  return (
    <div class="runs">
      <RunFilter page={page} />
      <RunTools page={page} onTrash={() => setTrashOpen(true)} />
      {runs.numUnread.value > 0 && count > 0 && <p class="runs-reading" role="status">Reading {formatWhole(runs.numUnread.value)} more runs; the list grows meanwhile.</p>}
      <BulkBar page={page} />
      <div class="runs-list">
        {count === 0
          ? <NoLines page={page} />
          : (
            <VirtualList count={count} rowHeight={ROW_HEIGHT} label="Runs" activeIndex={active} keyOf={(index) => keyOf(runs.lineAt(index), index)} onWindow={onWindow}
              row={(index) => <LineOf page={page} line={runs.lineAt(index)} onRename={setRenaming} />} />
          )}
      </div>
      <Rename key={renaming?.id ?? ""} page={page} row={renaming} onClose={() => setRenaming(null)} />
      <TrashDialog page={page} isOpen={isTrashOpen} onClose={() => setTrashOpen(false)} />
    </div>
  );
}

/** The line of the run in focus; -1 where it is not among the rows that are here. */
function activeLine({ runs, view }: Page, count: number): number {
  const focus = view.focus.value;
  if (focus === null) return -1;
  for (let index = 0; index < Math.min(count, MOST_LOOKED_AT); index++) {
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
      {line.rows !== null && <button type="button" class="button is-quiet" title="Show only this group" onClick={() => showInCharts(page, line.rows!.map(({ id }) => id))}>only</button>}
    </div>
  );
}

function RunTools({ page, onTrash }: { readonly page: Page; readonly onTrash: () => void }): JSX.Element {
  const { view, runs, selection } = page;
  const order = view.order.value;
  const hidden = view.text("hidden");
  const orders = [["-created", "Newest first"], ["created", "Oldest first"], ["-updated", "Written last first"], ["name", "By name"], ...HEADLINES.flatMap((role) => {
    const name = role.replace("role:", "").replace("_", " ");
    return [[role, `Smallest ${name}`], [`-${role}`, `Largest ${name}`]] as [string, string][];
  })] as [string, string][];
  const { actions } = selection;
  // More lines than charts can tell apart are drawn as quantiles, where there is a server to compute them.
  const isMany = runs.numFitting.value > MOST_SHOWN && page.source.sweep.curves !== null;
  const showNewest = (): void => {
    view.isCrowd.value = false;
    view.shown.value = null;
  };
  const more: (MenuItem | "divider")[] = [
    { label: "Show all that fit", ...(isMany ? { hint: "as quantiles" } : {}), run: () => (isMany ? (view.isCrowd.value = true) : showInCharts(page, runs.fitting.value.map(({ id }) => id), runs.numFitting.value)) },
    { label: "Show none", run: () => runs.showOnly([]) },
    { label: "Show the newest", run: showNewest },
    "divider",
    { label: "List hidden runs", isOn: hidden.value === "1", run: () => (hidden.value = hidden.value === "1" ? "" : "1") },
  ];
  if (page.source.connection.value !== "archive") {
    const { notifier } = page;
    more.push({ label: "Notify when a run ends", isOn: notifier.isOn.value, isDisabled: notifier.obstacle !== null, ...(notifier.obstacle === null ? {} : { hint: notifier.obstacle }), run: () => void notifier.toggle() });
  }
  if (actions !== null) {
    more.push({ label: "Select runs", isOn: selection.isOn.value, hint: "a", run: () => (selection.isOn.value = !selection.isOn.value) }, { label: "Trash…", run: onTrash });
  }
  return (
    <div class="runs-tools">
      <span class="runs-count">{runs.isLoaded.value ? `${isCrowd(page) ? "all" : runs.shown.value.length} of ${formatWhole(runs.numFitting.value)} shown` : ""}</span>
      <span class="card-space" />
      {(view.shown.value !== null || view.isCrowd.value) && <button type="button" class="button is-quiet" title="Show the newest runs" onClick={showNewest}>newest</button>}
      <Menu label="Order of runs" items={orders.map(([key, label]) => ({ label, isOn: order === key, run: () => (view.order.value = key) }))}>↕</Menu>
      <Menu label={`Group runs${view.groupBy.value === null ? "" : `: by ${groupName(view.groupBy.value)}`}`} items={groupItems(page)}>{view.groupBy.value === null ? "group" : `by ${groupName(view.groupBy.value)}`} ▾</Menu>
      <Menu label="Which runs are listed and shown" items={more}>⋯</Menu>
    </div>
  );
}

/** No groups, everything but the seed, and each key: a second key is added to the first. */
function groupItems({ view, runs }: Page): readonly (MenuItem | "divider")[] {
  const choice = view.groupBy.value;
  const keys = runs.configKeys.value.slice(0, MOST_KEYS);
  const isBut = choice?.startsWith("-") ?? false;
  const chosen = choice === null ? [] : choice.replace(/^-/, "").split(",");
  const set = (next: readonly string[], but: boolean): void => {
    view.groupBy.value = next.length === 0 ? null : `${but ? "-" : ""}${next.join(",")}`;
  };
  const toggled = (key: string): readonly string[] => (chosen.includes(key) ? chosen.filter((one) => one !== key) : [...chosen, key]);
  const seeds = keys.filter((key) => /(^|[._])seed$/.test(key));
  return [
    { label: "No groups", isOn: choice === null, run: () => set([], false) },
    ...seeds.map((key) => ({ label: `Everything but ${key}`, isOn: isBut && chosen.includes(key), run: () => set(isBut ? toggled(key) : [key], true) })),
    "divider",
    ...keys.map((key) => ({
      label: isBut ? `… and but ${key}` : key, isOn: chosen.includes(key), run: () => set(toggled(key), isBut),
    })),
  ];
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
