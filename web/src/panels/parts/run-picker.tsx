/** Which run a panel of one run shows; those in the charts are to choose from. */

import type { ComponentChildren, JSX } from "preact";

import { slotCss } from "../../chart/index.ts";
import type { Page } from "../../state/page.ts";
import { Empty } from "../../ui/empty.tsx";
import type { RunRow } from "../../wire.ts";

export function RunPicker({ page }: { readonly page: Page }): JSX.Element | null {
  const focus = page.runs.focus.value;
  if (focus === null) return null;
  const shown = page.runs.shown.value;
  const rows = shown.some(({ id }) => id === focus.id) ? shown : [focus, ...shown];
  return (
    <label class="run-picker">
      <i class="run-dot" style={{ background: slotCss(page.runs.slot(focus.id)) }} />
      <span class="visually-hidden">Run</span>
      <select class="select" value={focus.id} onChange={(event) => (page.view.focus.value = event.currentTarget.value)}>
        {rows.map(({ id }) => <option key={id} value={id}>{page.runs.label(id)}</option>)}
      </select>
    </label>
  );
}

/** What a panel of one run shows where there is one, and what it says where there is none. */
export function FocusedRun({ page, children }: { readonly page: Page; readonly children: (run: RunRow) => ComponentChildren }): JSX.Element {
  const focus = page.runs.focus.value;
  if (focus !== null) return <>{children(focus)}</>;
  if (!page.runs.isLoaded.value) return <div class="pane" aria-busy="true" />;
  return <Empty title="No run to show">Choose a run in the list, or start a recorded training.</Empty>;
}
