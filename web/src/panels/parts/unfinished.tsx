/** Runs that have not finished: groups, pictures and rankings leave them out, unless a switch includes them. */

import type { JSX } from "preact";

import type { Page } from "../../state/page.ts";
import type { RunRow, Unfinished } from "../../wire.ts";

/** The rows that count, by the rule of the server: if no finished run `has` a value, all count. */
export function countedRows(
  rows: readonly RunRow[],
  isIncluded: boolean,
  has: (row: RunRow) => boolean = () => true,
): readonly RunRow[] {
  const finished = rows.filter(({ unfinished }) => (unfinished ?? null) === null);
  return isIncluded || !finished.some(has) ? rows : finished;
}

/** The switch, where there are unfinished runs that it matters for. */
export function UnfinishedSwitch({
  page,
  unfinished,
}: {
  readonly page: Page;
  readonly unfinished: Unfinished | undefined;
}): JSX.Element | null {
  const { withUnfinished } = page.view;
  if (
    unfinished === undefined ||
    unfinished.runs.length === 0 ||
    (unfinished.are_included && !withUnfinished.value)
  )
    return null;
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={withUnfinished.value}
        onChange={(event) => (withUnfinished.value = event.currentTarget.checked)}
      />
      Include unfinished runs
    </label>
  );
}
