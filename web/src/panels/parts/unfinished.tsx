/** Runs that have not finished: groups, pictures and rankings leave them out, unless a switch includes them. */

import type { JSX } from "preact";

import { formatNumberOf, formatWhole } from "../../chart/index.ts";
import type { Page } from "../../state/page.ts";
import type { RunRow, Unfinished } from "../../wire.ts";

const MOST_NAMED = 5;

/** The rows that count, and what is said about the others, as the server does it: without a finished run that `has` a value, all count. */
export function countedRows(rows: readonly RunRow[], isIncluded: boolean, has: (row: RunRow) => boolean = () => true): { readonly rows: readonly RunRow[]; readonly unfinished: Unfinished } {
  const isAlone = !rows.some((row) => !isUnfinished(row) && has(row));
  const found = rows.filter((row) => isUnfinished(row) && (has(row) || !(isAlone || isIncluded)));
  const who = `${formatNumberOf(found.length, "unfinished run")} ${found.length === 1 ? "is" : "are"}`;
  const start = isIncluded || !isAlone ? `${who} ${isIncluded ? "included" : "left out"}`
    : found.length < rows.length ? `No finished run has the metric, so ${who} included` : "No run has finished, so all are included";
  const names = found.slice(0, MOST_NAMED).map(({ name, unfinished }) => `${name} (${unfinished!})`).join(", ");
  const more = found.length > MOST_NAMED ? ` and ${formatWhole(found.length - MOST_NAMED)} more` : "";
  const unfinished = {
    runs: found.map(({ id, name, unfinished: text }) => ({ run: id, name, text: text! })),
    are_included: isAlone || isIncluded,
    sentence: found.length === 0 ? "" : `${start}: ${names}${more}.`,
  };
  return { rows: unfinished.are_included ? rows : rows.filter((row) => !isUnfinished(row)), unfinished };
}

export function isUnfinished({ unfinished }: RunRow): boolean {
  return (unfinished ?? null) !== null;
}

export interface UnfinishedNoteProps {
  readonly page: Page;
  readonly unfinished: Unfinished | undefined;
  readonly label?: string;
  /** The names stand elsewhere. */
  readonly isNamed?: boolean;
}

/** Who is left out, and the switch. */
export function UnfinishedNote({ page, unfinished, label = "Include unfinished runs", isNamed = false }: UnfinishedNoteProps): JSX.Element | null {
  const { withUnfinished } = page.view;
  if (unfinished === undefined || unfinished.runs.length === 0) return null;
  const isChosen = withUnfinished.value || !unfinished.are_included;
  return (
    <p class="pane-bar unfinished" role="status">
      {isChosen && <label class="check"><input type="checkbox" checked={withUnfinished.value} onChange={(event) => (withUnfinished.value = event.currentTarget.checked)} />{label}</label>}
      {!isNamed && <span class="card-note">{unfinished.sentence}</span>}
    </p>
  );
}
