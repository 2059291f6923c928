/** Hooks with which panels ask: the answer stays on screen while a newer one is under way. */

import { useEffect, useState } from "preact/hooks";

import type { SeriesPart } from "../source/source.ts";
import { ENTRY_KINDS } from "../wire.ts";
import type { EntryKind, EntryList, RunParams } from "../wire.ts";
import type { CellRequest } from "./book.ts";
import type { Page } from "./page.ts";

export interface Entries {
  /** Null until the first answer. */
  readonly list: EntryList | null;
  readonly problem: string | null;
}

const NOTHING: Entries = { list: null, problem: null };
const AGAIN_MS = 1000;

/** Records of a run that are not numbers; asked for again, at most once a second, when more of them were recorded. */
export function useEntries<Kind extends EntryKind>(page: Page, kind: Kind, run: string | null, params?: RunParams[Kind]): Entries {
  const recordKinds: readonly string[] = ENTRY_KINDS[kind];
  const [state, setState] = useState<{ readonly key: string; readonly entries: Entries }>({ key: "", entries: NOTHING });
  const key = JSON.stringify([kind, run, params]);
  useEffect(() => {
    if (run === null) return undefined;
    let isOver = false;
    let isAsked = false;
    let isOutdated = false;
    const ask = (): void => {
      isAsked = true;
      isOutdated = false;
      page.source.get(kind, run, params).then(
        (list) => !isOver && setState({ key, entries: { list, problem: null } }),
        (error: unknown) => !isOver && setState((before) => ({
          key, entries: { list: before.key === key ? before.entries.list : null, problem: error instanceof Error ? error.message : String(error) },
        })),
      ).finally(() => setTimeout(() => {
        isAsked = false;
        if (isOutdated && !isOver) ask();
      }, AGAIN_MS));
    };
    ask();
    const stop = page.onNews((news) => {
      const isOurs = (news.type === "records" && news.run === run && news.entries.some((entry) => recordKinds.includes(entry.kind)))
        || (news.type === "reset" && (news.run === null || news.run === run));
      if (!isOurs || page.isPaused.peek()) return;
      if (isAsked) isOutdated = true;
      else ask();
    });
    return () => {
      isOver = true;
      stop();
    };
  }, [key]);
  return state.key === key ? state.entries : NOTHING;
}

export interface CellAnswer {
  readonly request: CellRequest;
  /** Null until the first answer. */
  readonly parts: readonly SeriesPart[] | null;
  readonly problem: string | null;
}

/** Series that grow while they are on screen. */
export function useCells(page: Page, requests: readonly CellRequest[]): readonly CellAnswer[] {
  const key = JSON.stringify(requests);
  useEffect(() => {
    for (const request of requests) page.book.open(request);
    return () => {
      for (const request of requests) page.book.close(request);
    };
  }, [key]);
  return requests.map((request) => {
    const cell = page.book.peek(request);
    return { request, parts: cell.parts.value, problem: cell.problem.value };
  });
}
