/** What keys do. Places and sections bring one key each; those of the frame are chosen not to be theirs. */

import type { Signal } from "@preact/signals";

import { PLACES } from "../panels/index.ts";
import { openSection, sectionsOfRun } from "../panels/sections.ts";
import type { Page } from "../state/page.ts";
import type { Shortcut } from "../ui/shortcuts.tsx";
import { THEMES } from "./theme.ts";
import type { Theme } from "./theme.ts";
import { setX, SMOOTHEST, xKinds } from "./control-bar.tsx";

const SMOOTHER = 0.1;

export interface ShortcutHost {
  readonly page: Page;
  readonly theme: Signal<Theme>;
  readonly showSheet: () => void;
  readonly openDrawer: () => void;
}

export function shortcutsOf({
  page,
  theme,
  showSheet,
  openDrawer,
}: ShortcutHost): readonly Shortcut[] {
  const { view, runs } = page;
  const focusOn = (selector: string): void => {
    // The panel that holds it may be about to appear.
    requestAnimationFrame(() =>
      requestAnimationFrame(() => document.querySelector<HTMLElement>(selector)?.focus()),
    );
  };
  const smoothen = (by: number): void => {
    view.smoothness.value =
      Math.round(Math.max(0, Math.min(SMOOTHEST, view.smoothness.value + by)) * 100) / 100;
  };
  const moveFocus = (by: number): void => {
    const rows = runs.fitting.value;
    const at = rows.findIndex(({ id }) => id === runs.focus.value?.id);
    const next = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
    if (next !== undefined) view.focus.value = next.id;
  };
  const withFocus = (run: (id: string) => void) => (): void => {
    if (runs.focus.value !== null) run(runs.focus.value.id);
  };
  return [
    ...PLACES.map(({ id, title, shortcut }) => ({
      key: shortcut,
      text: title,
      group: "Places",
      run: () => {
        page.open(id);
        focusOn("#panel");
      },
    })),
    ...sectionsOfRun().map(({ id, title, shortcut }) => ({
      key: shortcut,
      text: title,
      group: "Run",
      run: () => {
        openSection(page, id);
        focusOn(`[data-section="${id}"] .group-head`);
      },
    })),
    {
      key: "/",
      text: "Filter charts",
      group: "Find",
      run: () => {
        page.open("board");
        if (page.boards.board.value !== null && !page.boards.isChanged.value)
          page.boards.open(null);
        focusOn("#metric-search input");
      },
    },
    {
      key: "r",
      text: "Filter runs",
      group: "Find",
      run: () => {
        openDrawer();
        focusOn("#run-filter input");
      },
    },
    {
      key: "↑ → ↓ ←",
      text: "Move in the list, to checkboxes and menus too",
      group: "Runs",
      run: () => undefined,
    },
    { key: "j", text: "Next run", group: "Runs", run: () => moveFocus(1) },
    { key: "k", text: "Previous run", group: "Runs", run: () => moveFocus(-1) },
    {
      key: "e",
      text: "Show or hide in the charts",
      group: "Runs",
      run: withFocus((id) => void runs.toggle(id)),
    },
    {
      key: "a",
      text: "Show all matches",
      group: "Runs",
      run: () => (view.isAll.value ? runs.showNewest() : runs.showAll()),
    },
    { key: "s", text: "Show alone", group: "Runs", run: withFocus(runs.soloOn) },
    {
      key: "b",
      text: "Baseline",
      group: "Runs",
      run: withFocus((id) => (view.baseline.value = view.baseline.value === id ? null : id)),
    },
    {
      key: "x",
      text: "Next x axis",
      group: "Charts",
      run: () =>
        setX(page, xKinds(page)[(xKinds(page).indexOf(view.x.value) + 1) % xKinds(page).length]!),
    },
    { key: "]", text: "Smoother", group: "Charts", run: () => smoothen(SMOOTHER) },
    { key: "[", text: "Less smooth", group: "Charts", run: () => smoothen(-SMOOTHER) },
    { key: "z", text: "Reset zoom", group: "Charts", run: () => (view.zoom.value = null) },
    ...Object.entries({
      "← →": "Earlier or later step",
      "↑ ↓": "Previous or next, in the full view",
      "+ − 0": "Zoom in, out, or show the whole",
    }).map(([key, text]) => ({ key, text, group: "Samples", run: () => undefined })),
    ...Object.entries({
      Arrows: "Move the block in focus",
      "⇧ Arrows": "Resize it",
      "Enter or e": "Edit it",
      Del: "Delete it",
    }).map(([key, text]) => ({ key, text, group: "Board", run: () => undefined })),
    {
      key: "p",
      text: "Pause or continue",
      group: "Page",
      run: () => (page.isPaused.value = !page.isPaused.value),
    },
    {
      key: "d",
      text: "Next theme",
      group: "Page",
      run: () => (theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!),
    },
    { key: "?", text: "This sheet", group: "Page", run: showSheet },
  ];
}
