/** Why there is nothing to draw: it is on its way, nothing was logged, or nothing has been logged so far. */

import type { JSX } from "preact";

import type { Page } from "../../state/page.ts";
import { isEnded } from "../../state/run-rows.ts";
import { Empty } from "../../ui/empty.tsx";

export function NoMetrics({ page }: { readonly page: Page }): JSX.Element {
  const drawn = page.runs.drawn.value;
  if (!drawn.every(({ id }) => page.details.of(id).value !== null)) return <div class="pane" aria-busy="true"><p class="card-note">Loading metrics…</p></div>;
  if (drawn.every(isEnded)) {
    return <Empty title="Nothing was logged">{drawn.length === 1 ? `${drawn[0]!.name} ended without a metric.` : "These runs ended without a metric."}</Empty>;
  }
  return <Empty title="Nothing has been logged yet" code={'run.log({"loss": loss}, step=step)'}>The chart starts with the first value.</Empty>;
}
