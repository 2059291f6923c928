/** The frame of the page: runs at the left, the run in focus at the top, the places in the middle. */

import type { Signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";

import { formatNumberOf } from "../chart/index.ts";
import { PLACES } from "../panels/index.ts";
import type { Page } from "../state/page.ts";
import { store, stored } from "../state/storage.ts";
import { Empty } from "../ui/empty.tsx";
import { ShortcutSheet, useShortcuts } from "../ui/shortcuts.tsx";
import { Splitter } from "../ui/splitter.tsx";
import { Tabs } from "../ui/tabs.tsx";
import { ToastList } from "../ui/toast.tsx";
import type { TrashedRun } from "../wire.ts";
import { ControlBar } from "./control-bar.tsx";
import { FullChart } from "./full-chart.tsx";
import { TrashDialog } from "./run-edit.tsx";
import { RunList } from "./run-list.tsx";
import { shortcutsOf } from "./shortcuts.ts";
import type { Theme } from "./theme.ts";
import { TopBar } from "./top-bar.tsx";

const SIDE = { min: 190, start: 296, max: 640 };
const PANEL_ID = "panel";
/** The overview of projects is opened from their menu. */
const TABS = PLACES.filter(({ id }) => id !== "projects").map(({ id, title }) => ({
  id,
  label: title,
}));
const FIRST_LINES = `import epochal

with epochal.init(project="first", config={"lr": 3e-4}) as run:
    for step in range(1000):
        run.log({"loss": loss}, step=step)`;

export function App({
  page,
  theme,
}: {
  readonly page: Page;
  readonly theme: Signal<Theme>;
}): JSX.Element {
  const [isSheetOpen, setSheetOpen] = useState(false);
  const [isDrawerOpen, setDrawerOpen] = useState(false);
  const [sideWidth, setSideWidth] = useState(() => Number(stored("list-width")) || SIDE.start);
  useEffect(() => store("list-width", String(sideWidth)), [sideWidth]);
  const shortcuts = useMemo(
    () =>
      shortcutsOf({
        page,
        theme,
        showSheet: () => setSheetOpen(true),
        openDrawer: () => setDrawerOpen(true),
      }),
    [page],
  );
  useShortcuts(shortcuts);
  const { view } = page;
  const place = PLACES.find(({ id }) => id === view.place.value) ?? PLACES[0]!;
  const Content = place.component;
  const isFull = view.full.value !== null;
  return (
    <div
      class={`app${isDrawerOpen ? " has-drawer" : ""}${isFull ? " is-full" : ""}`}
      style={{ "--side": `${sideWidth}px` }}
    >
      <TopBar
        page={page}
        theme={theme}
        onDrawer={() => setDrawerOpen(!isDrawerOpen)}
        onShortcuts={() => setSheetOpen(true)}
      />
      {!isFull && (
        <aside class="side" aria-label="Runs">
          <RunList page={page} />
        </aside>
      )}
      {!isFull && (
        <div class="splitter-place" role="region" aria-label="Width of the list of runs">
          <Splitter
            label="Width of the list"
            size={sideWidth}
            min={SIDE.min}
            max={SIDE.max}
            onChange={setSideWidth}
          />
        </div>
      )}
      {isDrawerOpen && (
        <button
          type="button"
          class="drawer-shade"
          aria-label="Close the list of runs"
          onClick={() => setDrawerOpen(false)}
        />
      )}
      <main class="main">
        <div class="main-head">
          <Tabs
            label="Places"
            tabs={TABS}
            active={place.id}
            panelId={PANEL_ID}
            onChange={(id) => page.open(id)}
          />
          <ControlBar page={page} />
        </div>
        <section
          key={place.id}
          id={PANEL_ID}
          class="panel"
          role="tabpanel"
          aria-label={place.title}
          tabIndex={-1}
        >
          <Problem page={page} />
          <MissingRun page={page} />
          {page.runs.isLoaded.value && page.runs.numAll.value === 0 ? (
            <NoRuns page={page} />
          ) : isFull ? (
            <FullChart page={page} />
          ) : (
            <Content page={page} />
          )}
        </section>
      </main>
      <ShortcutSheet
        shortcuts={shortcuts}
        isOpen={isSheetOpen}
        onClose={() => setSheetOpen(false)}
      />
      <ToastList toasts={page.toasts} />
      <WindowTitle page={page} />
    </div>
  );
}

function NoRuns({ page }: { readonly page: Page }): JSX.Element | null {
  const [isTrashOpen, setTrashOpen] = useState(false);
  const [numTrashed, setNumTrashed] = useState(0);
  useEffect(
    () =>
      void page.source.changes?.trash().then(
        ({ runs }) => setNumTrashed(runs.length),
        () => undefined,
      ),
    [],
  );
  if (page.runs.problem.value !== null) return null;
  return (
    <>
      <Empty
        title={numTrashed === 0 ? "No runs in this folder yet" : "No runs in this folder"}
        code={FIRST_LINES}
      >
        {numTrashed > 0 && (
          <>
            {formatNumberOf(numTrashed, "deleted run")} can be restored from the{" "}
            <button type="button" class="link" onClick={() => setTrashOpen(true)}>
              trash
            </button>
            .{" "}
          </>
        )}
        Start a recorded training, or try “epochal demo”: runs appear here automatically.
      </Empty>
      <TrashDialog page={page} isOpen={isTrashOpen} onClose={() => setTrashOpen(false)} />
    </>
  );
}

function Problem({ page }: { readonly page: Page }): JSX.Element | null {
  const problem = page.runs.problem.value;
  return problem === null ? null : (
    <p class="problem" role="alert">
      {problem} The page retries when the server responds.
    </p>
  );
}

/** The address names a run that is not here: deleted, or misspelt; one that lies in the trash can be restored. */
function MissingRun({ page }: { readonly page: Page }): JSX.Element | null {
  const missing = page.runs.missing.value;
  const name = missing?.kind === "run" ? missing.name : null;
  const [trashed, setTrashed] = useState<TrashedRun | null>(null);
  useEffect(() => {
    setTrashed(null);
    if (name !== null)
      page.source.changes?.trash().then(
        ({ runs }) => setTrashed(runs.find(({ id }) => id === name) ?? null),
        () => undefined,
      );
  }, [name]);
  if (name === null) return null;
  return (
    <p class="problem" role="alert">
      {trashed === null ? (
        <>There is no run “{name}” here: it was deleted, or the link is misspelt.</>
      ) : (
        <>The run “{trashed.name}” is in the trash.</>
      )}{" "}
      {trashed !== null && (
        <button
          type="button"
          class="button"
          onClick={() => void page.selection.actions?.restore([trashed.key])}
        >
          Restore it
        </button>
      )}{" "}
      <button type="button" class="button" onClick={() => (page.view.focus.value = null)}>
        Show another
      </button>
    </p>
  );
}

/** The window's title says how the run in focus is doing, for tabs in the background. A component of its own: the page is not rendered again with each step. */
function WindowTitle({ page }: { readonly page: Page }): null {
  const row = page.runs.focus.value;
  const percent =
    row?.step != null && row.total_steps
      ? ` ${Math.floor(Math.min(1, (row.step + 1) / row.total_steps) * 100)}\u00a0%`
      : "";
  const title = row === null ? "Epochal" : `${row.name}${percent} · ${row.status.state}`;
  useEffect(() => {
    // A saved file has the title of its board or its runs.
    if (page.source.connection.value !== "archive") document.title = title;
  }, [title]);
  return null;
}
