/** Why no run can be shown: it is on its way, the filter has none, or the address names one that is not there. */

import type { JSX } from "preact";

import type { Page } from "../../state/page.ts";
import { Empty } from "../../ui/empty.tsx";

export function NoRun({ page }: { readonly page: Page }): JSX.Element {
  const { runs, view } = page;
  if (!runs.isLoaded.value || !runs.isSettled.value)
    return (
      <div class="pane" aria-busy="true">
        <p class="card-note">Loading runs…</p>
      </div>
    );
  if (runs.problem.value !== null)
    return <Empty title="The runs could not be loaded">{runs.problem.value}</Empty>;
  const missing = runs.missing.value;
  if (missing?.kind === "project")
    return (
      <Empty title={`There is no project “${missing.name}”`}>
        It was deleted or renamed, or the address is misspelt.
      </Empty>
    );
  if (view.filter.value.trim() !== "")
    return (
      <Empty title="No run matches the filter">
        Clear the filter of the run list to see runs again.
      </Empty>
    );
  if (runs.numAll.value > 0 && runs.numFitting.value === 0)
    return <Empty title="All runs are hidden">The menu of the run list shows hidden runs.</Empty>;
  return <Empty title="No run is shown">Choose one in the list of runs.</Empty>;
}
