/** Hooks that fetch data for panels: the last response stays on screen while a newer one is fetched. */

import { useEffect, useLayoutEffect, useState } from "preact/hooks";

import type { SeriesPart, Update } from "../source/source.ts";
import { ENTRY_KINDS } from "../wire.ts";
import type { EntryKind, EntryList, RunEndpoint, RunParams, RunResponses } from "../wire.ts";
import type { SeriesQueryOptions } from "./series-cache.ts";
import type { Page } from "./page.ts";

export interface Fetched<Response> {
  /** Null until the first response. */
  readonly response: Response | null;
  readonly problem: string | null;
}

const NOTHING = { response: null, problem: null };
const REFETCH_MS = 1000;
/** Records that are samples. */
export const SAMPLE_KINDS: readonly string[] = [...ENTRY_KINDS.texts, ...ENTRY_KINDS.blobs];

/**
 * The response of an endpoint of a run, such as `useRunResponse(page, "marks", run.id)`; null instead of a run fetches nothing.
 * It is fetched again, at most once a second, when the run recorded more; with `recordKinds` only when records of these kinds were recorded.
 */
export function useRunResponse<Endpoint extends RunEndpoint>(
  page: Page,
  endpoint: Endpoint,
  run: string | null,
  params?: RunParams[Endpoint],
  recordKinds?: readonly string[],
): Fetched<RunResponses[Endpoint]> {
  const key = JSON.stringify([endpoint, run, params]);
  return (
    useRunResponses(page, endpoint, run === null ? [] : [{ key, run, params }], recordKinds).get(
      key,
    ) ?? NOTHING
  );
}

export interface RunRequest<Endpoint extends RunEndpoint> {
  readonly key: string;
  readonly run: string;
  readonly params?: RunParams[Endpoint] | undefined;
}

/** The same for several requests at once, by their keys: what a key had stays until its next response. */
export function useRunResponses<Endpoint extends RunEndpoint>(
  page: Page,
  endpoint: Endpoint,
  requests: readonly RunRequest<Endpoint>[],
  recordKinds?: readonly string[],
): ReadonlyMap<string, Fetched<RunResponses[Endpoint]>> {
  const [found, setFound] = useState<ReadonlyMap<string, Fetched<RunResponses[Endpoint]>>>(
    new Map(),
  );
  useEffect(() => {
    const keys = new Set(requests.map(({ key }) => key));
    const stops = requests.map((request) =>
      watchResponse(page, endpoint, request, recordKinds, (news) =>
        setFound((before) => {
          const kept = new Map([...before].filter(([key]) => keys.has(key)));
          return kept.set(request.key, { ...(kept.get(request.key) ?? NOTHING), ...news });
        }),
      ),
    );
    return () => stops.forEach((stop) => stop());
  }, [JSON.stringify([endpoint, requests])]);
  return found;
}

/** Fetch a response, and again whenever the run recorded more; returns the function that ends it. */
function watchResponse<Endpoint extends RunEndpoint>(
  page: Page,
  endpoint: Endpoint,
  { run, params }: RunRequest<Endpoint>,
  recordKinds: readonly string[] | undefined,
  tell: (news: Partial<Fetched<RunResponses[Endpoint]>>) => void,
): () => void {
  let isOver = false;
  let isFetching = false;
  let isOutdated = false;
  const refetch = (): void => {
    isFetching = true;
    isOutdated = false;
    page.source
      .get(endpoint, run, params)
      .then(
        (response) => !isOver && tell({ response, problem: null }),
        (error: unknown) =>
          !isOver && tell({ problem: error instanceof Error ? error.message : String(error) }),
      )
      .finally(() =>
        setTimeout(() => {
          isFetching = false;
          if (isOutdated && !isOver) refetch();
        }, REFETCH_MS),
      );
  };
  refetch();
  const stop = page.onUpdate((update) => {
    if (page.isPaused.peek() || !isChangedBy(update, run, recordKinds)) return;
    if (isFetching) isOutdated = true;
    else refetch();
  });
  return () => {
    isOver = true;
    stop();
  };
}

function isChangedBy(update: Update, run: string, recordKinds?: readonly string[]): boolean {
  if (update.type === "reset") return update.run === null || update.run === run;
  return (
    update.type === "records" &&
    update.run === run &&
    (recordKinds === undefined || update.entries.some(({ kind }) => recordKinds.includes(kind)))
  );
}

export interface Entries {
  /** Null until the first response. */
  readonly list: EntryList | null;
  readonly problem: string | null;
}

/** Entries of a run; fetched again, at most once a second, when more of them were recorded. */
export function useEntries<Kind extends EntryKind>(
  page: Page,
  kind: Kind,
  run: string | null,
  params?: RunParams[Kind],
): Entries {
  const { response, problem } = useRunResponse(page, kind, run, params, ENTRY_KINDS[kind]);
  return { list: response, problem };
}

export interface SeriesQueryResult {
  readonly request: SeriesQueryOptions;
  /** Null until the first response. */
  readonly parts: readonly SeriesPart[] | null;
  readonly problem: string | null;
}

/** Series that are updated while they are on screen. */
export function useSeriesQueries(
  page: Page,
  requests: readonly SeriesQueryOptions[],
): readonly SeriesQueryResult[] {
  const key = JSON.stringify(requests);
  // Before the picture: the server reads while the browser paints.
  useLayoutEffect(() => {
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
