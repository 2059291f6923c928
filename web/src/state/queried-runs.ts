/** Which runs a query selects, where this page has every run and only the server can read the query. */

import { effect, signal } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";

import type { Source } from "../source/source.ts";

export interface QueriedRuns {
  /** What was asked; empty for nothing. */
  readonly query: string;
  /** Null for all. */
  readonly ids: ReadonlySet<string> | null;
  /** How many runs the server has not read yet as far as the query needs. */
  readonly pending: number;
  readonly problem: string | null;
}

/** How often a query is asked again while the server reads what it needs. */
export const UNREAD_MS = 1000;
const TYPING_MS = 250;
const QUERY_ROWS = 5000;
const NOTHING: QueriedRuns = { query: "", ids: null, pending: 0, problem: null };

/** The ids of all runs that a query selects, window by window, and how many runs the server could not judge yet. */
async function matchingIds(source: Source, query: string): Promise<{ readonly ids: ReadonlySet<string>; readonly pending: number }> {
  const ids = new Set<string>();
  let pending = 0;
  for (let offset = 0, total = 1; offset < total; offset += QUERY_ROWS) {
    const list = await source.runs({ query, offset, limit: QUERY_ROWS });
    for (const { id } of list.rows) ids.add(id);
    total = list.total;
    pending = list.pending ?? 0;
  }
  return { ids, pending };
}

/** A list that changes has the query asked again. */
export function createQueriedRuns(source: Source, asked: ReadonlySignal<string>, list: ReadonlySignal<unknown>): ReadonlySignal<QueriedRuns> {
  const queried = signal(NOTHING);
  effect(() => {
    const query = asked.value;
    if (query === "") {
      queried.value = NOTHING;
      return undefined;
    }
    void list.value;
    let timer: ReturnType<typeof setTimeout>;
    let isOver = false;
    const ask = (): void => {
      matchingIds(source, query).then(
        (found) => {
          if (isOver) return;
          queried.value = { ...found, query, problem: null };
          if (found.pending > 0) timer = setTimeout(ask, UNREAD_MS);
        },
        (error: unknown) => {
          if (!isOver) queried.value = { ...queried.peek(), query, problem: error instanceof Error ? error.message : String(error) };
        },
      );
    };
    // Asked when typing rests.
    timer = setTimeout(ask, TYPING_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  });
  return queried;
}
