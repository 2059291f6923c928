/** The runs at the left: filter, groups, and which of them are in the charts. */

import type { JSX } from "preact";
import { useCallback, useState } from "preact/hooks";

import { formatWhole, slotSample } from "../chart/index.ts";
import type { Page } from "../state/page.ts";
import { HEADLINES } from "../state/run-rows.ts";
import type { RunLine } from "../state/runs.ts";
import { Menu } from "../ui/menu.tsx";
import type { MenuItem } from "../ui/menu.tsx";
import { useResting } from "../ui/resting.ts";
import { VirtualList } from "../ui/virtual-list.tsx";
import { MOST_SHOWN } from "../state/runs.ts";
import { EditMenu, showInCharts, TrashDialog } from "./run-edit.tsx";
import { RunFilter } from "./run-filter.tsx";
import { RunRow } from "./run-row.tsx";

const DOUBLE_CLICK_MS = 300;
/** A finger needs 44 pixels. */
const ROW_HEIGHT = matchMedia("(pointer: coarse)").matches ? 44 : 30;

export function RunList({ page }: { readonly page: Page }): JSX.Element {
  const { runs, view } = page;
  const [isTrashOpen, setTrashOpen] = useState(false);
  const count = runs.numLines.value;
  const focused = lineOf(page, count, runs.focus.value?.id);
  // Rows stay where they are between the two clicks of a double click.
  const opened = useResting(runs.focus.value?.id, DOUBLE_CLICK_MS);
  const onWindow = useCallback(
    (start: number, stop: number) => runs.wantLines(start, stop),
    [runs],
  );
  return (
    <div class="runs">
      <RunFilter page={page} />
      <RunTools page={page} onTrash={() => setTrashOpen(true)} />
      {runs.numUnsummarised.value > 0 && count > 0 && <Unsummarised page={page} />}
      <ValueName page={page} />
      <div class="runs-list" onKeyDown={moveInList}>
        {count === 0 ? (
          <NoLines page={page} />
        ) : (
          <VirtualList
            count={count}
            rowHeight={ROW_HEIGHT}
            label="Runs"
            activeIndex={view.focus.value === null ? -1 : focused}
            tallIndex={lineOf(page, count, opened)}
            keyOf={(index) => keyOf(runs.lineAt(index), index)}
            onWindow={onWindow}
            row={(index) => <LineOf page={page} line={runs.lineAt(index)} opened={opened} />}
          />
        )}
      </div>
      <TrashDialog page={page} isOpen={isTrashOpen} onClose={() => setTrashOpen(false)} />
    </div>
  );
}

/** The metric whose latest values the list has, where it is the same one for all runs in the charts. */
function ValueName({ page }: { readonly page: Page }): JSX.Element | null {
  const roles = page.runs.drawn.value.map(({ id }) => page.details.of(id).value?.roles ?? {});
  const names = new Set(
    roles.map((role) => role.loss ?? role.eval_loss).filter((name) => name !== undefined),
  );
  return names.size === 1 ? <p class="runs-value-name">{[...names][0]}</p> : null;
}

/** The list is one stop of the Tab key: arrow keys move between its rows, and along a row to its checkbox, menu, tags and note. */
function moveInList(event: KeyboardEvent): void {
  const [at, list] = [
    event.target as HTMLElement,
    (event.currentTarget as HTMLElement).querySelector(".list"),
  ];
  if (
    list === null ||
    event.defaultPrevented ||
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    at.matches("input, textarea") ||
    !event.key.startsWith("Arrow")
  )
    return;
  event.preventDefault();
  const rows = [...list.querySelectorAll<HTMLElement>(".list-row:has(.run-name)")];
  const index = rows.findIndex((row) => row.contains(at));
  const [row, stops] = [
    rows[index],
    [...(rows[index]?.querySelectorAll<HTMLElement>("button") ?? [])],
  ];
  if (row === undefined)
    (
      list.querySelector<HTMLElement>(".is-focus .run-name") ??
      rows[0]?.querySelector<HTMLElement>(".run-name")
    )?.focus();
  else if (event.key === "ArrowLeft" || event.key === "ArrowRight")
    stops[stops.indexOf(at) + (event.key === "ArrowLeft" ? -1 : 1)]?.focus();
  else
    rows[index + (event.key === "ArrowUp" ? -1 : 1)]
      ?.querySelector<HTMLElement>(
        at.matches(".run-mark")
          ? ".run-mark"
          : at.matches("[aria-haspopup]")
            ? "[aria-haspopup]"
            : ".run-name",
      )
      ?.focus();
}

/** The line of a run; -1 where it is not among the rows that are here. */
function lineOf({ runs }: Page, count: number, id: string | undefined): number {
  for (let index = 0; id !== undefined && index < Math.min(count, MOST_LOOKED_AT); index++) {
    const line = runs.lineAt(index);
    if (line?.kind === "run" && line.row?.id === id) return index;
  }
  return -1;
}

const MOST_LOOKED_AT = 3000;

/** Why the list has no lines: what is true of it at this moment. */
function NoLines({ page }: { readonly page: Page }): JSX.Element {
  const { runs, view } = page;
  if (runs.problem.value !== null && runs.numAll.value === 0)
    return <p class="runs-empty">The list could not be loaded.</p>;
  if (!runs.isLoaded.value)
    return (
      <p class="runs-empty" aria-busy="true">
        Loading runs…
      </p>
    );
  if (runs.numAll.value === 0) return <p class="runs-empty">No runs yet.</p>;
  const missing = runs.missing.value;
  if (missing?.kind === "project")
    return (
      <p class="runs-empty">
        There is no project “{missing.name}”.{" "}
        <button type="button" class="link" onClick={() => (view.project.value = null)}>
          All projects
        </button>
      </p>
    );
  if (runs.filterProblem.value !== null)
    return <p class="runs-empty">The filter is not complete.</p>;
  if (!runs.isSettled.value)
    return (
      <p class="runs-empty" aria-busy="true">
        Searching…
      </p>
    );
  if (runs.numUnsummarised.value > 0) return <Unsummarised page={page} />;
  if (view.filter.value.trim() !== "") {
    return (
      <p class="runs-empty">
        {unknownKey(view.filter.value, runs.configKeys.value) ?? "No run matches this filter."}{" "}
        <button type="button" class="link" onClick={() => (view.filter.value = "")}>
          Clear it
        </button>
      </p>
    );
  }
  return (
    <p class="runs-empty">
      All runs are hidden.{" "}
      <button type="button" class="link" onClick={() => (view.text("hidden").value = "1")}>
        Show them
      </button>
    </p>
  );
}

/** A sentence about a config key of a query that no run has, with the one that is most like it. */
function unknownKey(query: string, keys: readonly string[]): string | null {
  const wrong = [...query.matchAll(/\bconfig\.([\w./@:-]+)/g)]
    .map(([, key]) => key!)
    .find((key) => keys.every((one) => one !== key && !one.startsWith(`${key}.`)));
  if (wrong === undefined || keys.length === 0) return null;
  const alike = (key: string): number => {
    let [start, end] = [0, 0];
    while (start < key.length && key[start] === wrong[start]) start++;
    while (end < key.length - start && key.at(-1 - end) === wrong.at(-1 - end)) end++;
    return (start + end) / Math.max(key.length, wrong.length);
  };
  const nearest = keys.reduce((best, key) => (alike(key) > alike(best) ? key : best));
  return `No run has “${wrong}” in its config${alike(nearest) < 0.5 ? "." : `: do you mean “${nearest}”?`}`;
}

function keyOf(line: RunLine | undefined, index: number): string {
  if (line === undefined) return `line ${index}`;
  return line.kind === "run" ? (line.row?.id ?? `row ${line.index}`) : `group ${line.title}`;
}

function LineOf({
  page,
  line,
  opened,
}: {
  readonly page: Page;
  readonly line: RunLine | undefined;
  readonly opened: string | undefined;
}): JSX.Element {
  if (line?.kind === "run" && line.row !== undefined)
    return <RunRow page={page} row={line.row} isOpen={line.row.id === opened} />;
  if (line === undefined || line.kind === "run")
    return (
      <div class="run is-coming" aria-busy="true">
        <i />
      </div>
    );
  const { groupKeys } = page.runs;
  return (
    <div class="run-group">
      {line.rows?.[0] !== undefined && page.view.spread.value !== "none" && (
        <i
          class="run-group-line"
          style={{ background: slotSample(page.runs.slot(line.rows[0].id)) }}
        />
      )}
      {groupKeys.value.length === 1 && <span class="run-group-key">{groupKeys.value[0]} =</span>}
      <b title={line.title}>{line.title}</b>
      <span class="card-note">{formatWhole(line.count)}</span>
      {line.rows !== null && page.view.spread.value === "none" && (
        <button
          type="button"
          class="button is-quiet"
          tabIndex={-1}
          title="Show only this group"
          onClick={() =>
            showInCharts(
              page,
              line.rows!.map(({ id }) => id),
            )
          }
        >
          only
        </button>
      )}
    </div>
  );
}

const ORDERS: readonly (readonly [string, string])[] = [
  ["-created", "Newest first"],
  ["created", "Oldest first"],
  ["-updated", "Last updated first"],
  ["name", "By name"],
  ...HEADLINES.flatMap((role) => {
    const name = role.replace("role:", "").replace("_", " ");
    return [
      [role, `Smallest ${name}`],
      [`-${role}`, `Largest ${name}`],
    ] as const;
  }),
];

function RunTools({
  page,
  onTrash,
}: {
  readonly page: Page;
  readonly onTrash: () => void;
}): JSX.Element {
  const { view, runs, notifier, source } = page;
  const hidden = view.text("hidden");
  const isMany = runs.numFitting.value > MOST_SHOWN && source.sweep.curves !== null;
  const more: (MenuItem | "divider")[] = [
    {
      label: "Show all matches",
      isOn: view.isAll.value,
      ...(isMany ? { hint: "as quantiles" } : {}),
      run: runs.showAll,
    },
    {
      label: "Show the newest",
      isOn: view.shown.value === null && !view.isAll.value,
      run: runs.showNewest,
    },
    { label: "Show none", run: () => runs.showOnly([]) },
    "divider",
    {
      label: "List hidden runs",
      isOn: hidden.value === "1",
      run: () => (hidden.value = hidden.value === "1" ? "" : "1"),
    },
  ];
  if (source.connection.value !== "archive")
    more.push({
      label: "Notify when a run ends",
      isOn: notifier.isOn.value,
      isDisabled: notifier.obstacle !== null,
      ...(notifier.obstacle === null ? {} : { hint: notifier.obstacle }),
      run: () => void notifier.toggle(),
    });
  if (page.selection.actions !== null) more.push({ label: "Trash…", run: onTrash });
  return (
    <div class="runs-tools">
      <span class="runs-count">
        {runs.isLoaded.value && runs.numAll.value > 0
          ? `${formatWhole(runs.numShown.value)} of ${formatWhole(runs.numFitting.value)} shown`
          : ""}
      </span>
      <span class="card-space" />
      <EditMenu page={page} />
      <Menu
        label="Order of runs"
        items={ORDERS.map(([key, label]) => ({
          label,
          isOn: view.order.value === key,
          run: () => (view.order.value = key),
        }))}
      >
        ↕
      </Menu>
      <Menu label="Which runs are listed and shown" items={more}>
        ⋯
      </Menu>
    </div>
  );
}

/** Runs of which only identity and status are known, and how to change that. */
function Unsummarised({ page }: { readonly page: Page }) {
  const count = page.runs.numUnsummarised.value;
  return (
    <p class="runs-reading" role="status">
      {count === 1 ? "1 run is" : `${formatWhole(count)} runs are`} not summarised yet:{" "}
      <code>epochal manage pack --all</code>
    </p>
  );
}
