/** Hooks that fetch data for panels: the last response stays on screen while a newer one is fetched. */

import { useEffect, useState } from "preact/hooks";

import type { SeriesPart } from "../source/source.ts";
import { ENTRY_KINDS } from "../wire.ts";
import type { EntryKind, EntryList, RunParams } from "../wire.ts";
import type { SeriesQueryOptions } from "./series-cache.ts";
import type { Page } from "./page.ts";

export interface Entries {
  /** Null until the first response. */
  readonly list: EntryList | null;
  readonly problem: string | null;
}

const NOTHING: Entries = { list: null, problem: null };
const REFETCH_MS = 1000;

/** Entries of a run; fetched again, at most once a second, when more of them were recorded. */
export function useEntries<Kind extends EntryKind>(page: Page, kind: Kind, run: string | null, params?: RunParams[Kind]): Entries {
  const recordKinds: readonly string[] = ENTRY_KINDS[kind];
  const [state, setState] = useState<{ readonly key: string; readonly entries: Entries }>({ key: "", entries: NOTHING });
  const key = JSON.stringify([kind, run, params]);
  useEffect(() => {
    if (run === null) return undefined;
    let isOver = false;
    let isFetching = false;
    let isOutdated = false;
    const refetch = (): void => {
      isFetching = true;
      isOutdated = false;
      page.source.get(kind, run, params).then(
        (list) => !isOver && setState({ key, entries: { list, problem: null } }),
        (error: unknown) => !isOver && setState((before) => ({
          key, entries: { list: before.key === key ? before.entries.list : null, problem: error instanceof Error ? error.message : String(error) },
        })),
      ).finally(() => setTimeout(() => {
        isFetching = false;
        if (isOutdated && !isOver) refetch();
      }, REFETCH_MS));
    };
    refetch();
    const stop = page.onUpdate((update) => {
      const isOurs = (update.type === "records" && update.run === run && update.entries.some((entry) => recordKinds.includes(entry.kind)))
        || (update.type === "reset" && (update.run === null || update.run === run));
      if (!isOurs || page.isPaused.peek()) return;
      if (isFetching) isOutdated = true;
      else refetch();
    });
    return () => {
      isOver = true;
      stop();
    };
  }, [key]);
  return state.key === key ? state.entries : NOTHING;
}

export interface SeriesQueryResult {
  readonly request: SeriesQueryOptions;
  /** Null until the first response. */
  readonly parts: readonly SeriesPart[] | null;
  readonly problem: string | null;
}

/** Series that are updated while they are on screen. */
export function useSeriesQueries(page: Page, requests: readonly SeriesQueryOptions[]): readonly SeriesQueryResult[] {
  const key = JSON.stringify(requests);
  useEffect(() => {
    for (const request of requests) page.seriesCache.open(request);
    return () => {
      for (const request of requests) page.seriesCache.close(request);
    };
  }, [key]);
  return requests.map((request) => {
    const query = page.seriesCache.peek(request);
    return { request, parts: query.parts.value, problem: query.problem.value };
  });
}
