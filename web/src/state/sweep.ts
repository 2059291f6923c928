/** Numbers of many runs at once, as the server computes them: which runs, by which keys, and hooks that fetch them. */

import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { formatWhole } from "../chart/index.ts";
import type { SweepRuns, SweepSource } from "../source/source.ts";
import type { Page } from "./page.ts";
import { isEnded } from "./run-rows.ts";

export interface Sweep<Answer> {
  /** Null until the first answer; the last one stays while another is fetched. */
  readonly answer: Answer | null;
  readonly problem: string | null;
  readonly isWaiting: boolean;
}

const NOTHING = { answer: null, problem: null, isWaiting: false };
const AGAIN_MS = 5000;
const SETTLE_MS = 150;

/** The runs of the list, whatever part of it the page has. */
export function sweepRuns({ runs, view }: Page): SweepRuns {
  const query = runs.sweepQuery();
  return {
    ...(query === "" ? {} : { query }),
    ...(view.withUnfinished.value ? { unfinished: true } : {}),
  };
}

/** What stands where the server still reads the runs of the list. */
export function readingText({ runs }: Page): string {
  return runs.isLoaded.value
    ? `Reading ${formatWhole(runs.numFitting.value)} runs …`
    : "Reading runs …";
}

/** Keys of `lr,model`, or of `-seed`: everything that differs but those. */
export function groupKeys(choice: string | null): Pick<SweepRuns, "by" | "all_but"> {
  if (choice === null) return {};
  return choice.startsWith("-")
    ? { all_but: choice.slice(1).split(",") }
    : { by: choice.split(",") };
}

/** Fetch something about many runs, again while any of them goes on, and when runs come or go; a null key fetches nothing. */
export function useSweep<Answer>(
  page: Page,
  key: string | null,
  ask: (source: SweepSource) => Promise<Answer>,
): Sweep<Answer> {
  const [state, setState] = useState<Sweep<Answer> & { readonly key: string | null }>({
    ...NOTHING,
    key: null,
  });
  const areLive = page.runs.fitting.value.some((row) => !isEnded(row));
  const isWatching = useRef(areLive);
  isWatching.current = areLive;
  // Before the picture: the server computes while the browser paints.
  useLayoutEffect(() => {
    if (key === null) return undefined;
    let isOver = false;
    let isFetching = false;
    let isOutdated = false;
    const fetch = (): void => {
      isFetching = true;
      isOutdated = false;
      ask(page.source.sweep)
        .then(
          (answer) => !isOver && setState({ key, answer, problem: null, isWaiting: false }),
          (error: unknown) =>
            !isOver &&
            setState({
              key,
              answer: null,
              problem: error instanceof Error ? error.message : String(error),
              isWaiting: false,
            }),
        )
        .finally(() => (isFetching = false));
    };
    // A filter that is being typed need not ask at every letter.
    let first: ReturnType<typeof setTimeout> | undefined;
    if (state.answer === null) fetch();
    else first = setTimeout(fetch, SETTLE_MS);
    const stop = page.onUpdate((update) => {
      if (update.type === "runs" && (update.all || update.added.length + update.removed.length > 0))
        isOutdated = true;
    });
    const timer = setInterval(() => {
      if (!isFetching && !page.isPaused.peek() && (isOutdated || isWatching.current)) fetch();
    }, AGAIN_MS);
    return () => {
      isOver = true;
      stop();
      clearTimeout(first);
      clearInterval(timer);
    };
  }, [key]);
  if (key === null) return NOTHING;
  return state.key === key ? state : { ...state, problem: null, isWaiting: true };
}
