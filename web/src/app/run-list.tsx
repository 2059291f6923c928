/** The runs at the left: filter, groups, and which of them are in the charts. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import type { Page } from "../state/page.ts";
import { HEADLINES } from "../state/runs.ts";
import { Dialog } from "../ui/dialog.tsx";
import { Menu } from "../ui/menu.tsx";
import { SearchBox } from "../ui/search-box.tsx";
import { VirtualList } from "../ui/virtual-list.tsx";
import type { RunRow as Row } from "../wire.ts";
import { updateLabels, RunRow } from "./run-row.tsx";

const ROW_HEIGHT = 30;
const MOST_KEYS = 200;

type Line = { readonly kind: "run"; readonly row: Row } | { readonly kind: "group"; readonly title: string; readonly rows: readonly Row[] };

export function RunList({ page }: { readonly page: Page }): JSX.Element {
  const { runs } = page;
  const [renaming, setRenaming] = useState<Row | null>(null);
  const lines = linesOf(page);
  const active = lines.findIndex((line) => line.kind === "run" && line.row.id === page.view.focus.value);
  return (
    <div class="runs">
      <RunFilter page={page} />
      <RunTools page={page} />
      <div class="runs-list">
        {runs.isLoaded.value && lines.length === 0
          ? <p class="runs-empty">{runs.all.value.length === 0 ? "No runs yet." : "No run matches this filter."}</p>
          : (
            <VirtualList count={lines.length} rowHeight={ROW_HEIGHT} label="Runs" activeIndex={active} keyOf={(index) => keyOf(lines[index]!)}
              row={(index) => <LineOf page={page} line={lines[index]!} onRename={setRenaming} />} />
          )}
      </div>
      <Rename key={renaming?.id ?? ""} page={page} row={renaming} onClose={() => setRenaming(null)} />
    </div>
  );
}

function linesOf({ runs }: Page): readonly Line[] {
  return runs.groups.value.flatMap(({ title, rows }): Line[] => [
    ...(title === null ? [] : [{ kind: "group", title, rows } as const]),
    ...rows.map((row): Line => ({ kind: "run", row })),
  ]);
}

function keyOf(line: Line): string {
  return line.kind === "run" ? line.row.id : `group ${line.title}`;
}

interface LineProps {
  readonly page: Page;
  readonly line: Line;
  readonly onRename: (row: Row) => void;
}

function LineOf({ page, line, onRename }: LineProps): JSX.Element {
  if (line.kind === "run") return <RunRow page={page} row={line.row} onRename={onRename} />;
  return (
    <div class="run-group">
      <span class="run-group-key">{page.view.groupBy.value} =</span>
      <b title={line.title}>{line.title}</b>
      <span class="card-note">{line.rows.length}</span>
      <button type="button" class="button is-quiet" title="Show only this group" onClick={() => page.runs.showOnly(line.rows.map(({ id }) => id))}>only</button>
    </div>
  );
}

function RunFilter({ page }: { readonly page: Page }): JSX.Element {
  const { view, runs, source } = page;
  const isQuery = view.filterMode.value === "query";
  const count = `${runs.fitting.value.length}`;
  const canQuery = source.connection.value !== "archive";
  return (
    <div class="runs-filter" id="run-filter">
      {isQuery ? <QueryBox page={page} count={count} /> : (
        <SearchBox label="Filter runs" query={view.filter.value} isRegex={view.filterMode.value === "regex"} count={count}
          onChange={(query, isRegex) => {
            view.filter.value = query;
            view.filterMode.value = isRegex ? "regex" : "words";
          }} />
      )}
      <button type="button" class="button is-quiet runs-query" aria-pressed={isQuery} disabled={!canQuery && !isQuery}
        title={canQuery ? 'Query, such as: config.lr < 3e-4 and status == "running"' : "Queries need the server; an archive supports words and regular expressions."}
        onClick={() => (view.filterMode.value = isQuery ? "words" : "query")}>where</button>
    </div>
  );
}

function QueryBox({ page, count }: { readonly page: Page; readonly count: string }): JSX.Element {
  const { view, runs } = page;
  const problem = runs.filterProblem.value;
  return (
    <div class={`search${problem === null ? "" : " is-wrong"}`}>
      <input type="search" class="runs-query-text" aria-label="Query runs" placeholder="config.lr < 3e-4" value={view.filter.value} spellcheck={false} autocomplete="off"
        aria-invalid={problem !== null} onInput={(event) => (view.filter.value = event.currentTarget.value)} />
      <span class="search-count">{count}</span>
      {problem !== null && <pre class="search-error" role="status">{problem}</pre>}
    </div>
  );
}

function RunTools({ page }: { readonly page: Page }): JSX.Element {
  const { view, runs } = page;
  const order = view.order.value;
  const orders = [["-created", "Newest first"], ["created", "Oldest first"], ["name", "By name"], ...HEADLINES.flatMap((role) => {
    const name = role.replace("role:", "").replace("_", " ");
    return [[role, `Smallest ${name}`], [`-${role}`, `Largest ${name}`]] as [string, string][];
  })] as [string, string][];
  const keys = runs.configKeys.value.slice(0, MOST_KEYS);
  return (
    <div class="runs-tools">
      <span class="runs-count">{runs.shown.value.length} of {runs.fitting.value.length} shown</span>
      <span class="card-space" />
      {view.shown.value !== null && <button type="button" class="button is-quiet" title="Show the newest runs" onClick={() => (view.shown.value = null)}>newest</button>}
      <Menu label="Order of runs" items={orders.map(([key, label]) => ({ label, isOn: order === key, run: () => (view.order.value = key) }))}>↕</Menu>
      <Menu label="Group runs" items={[
        { label: "No groups", isOn: view.groupBy.value === null, run: () => (view.groupBy.value = null) },
        "divider",
        ...keys.map((key) => ({ label: key, isOn: view.groupBy.value === key, run: () => (view.groupBy.value = key) })),
      ]}>{view.groupBy.value === null ? "group" : `by ${view.groupBy.value}`} ▾</Menu>
      <Menu label="Which runs are shown" items={[
        { label: "Show all that fit", run: () => runs.showOnly(runs.fitting.value.map(({ id }) => id)) },
        { label: "Show none", run: () => runs.showOnly([]) },
        { label: "Show the newest", run: () => (view.shown.value = null) },
      ]}>⋯</Menu>
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
