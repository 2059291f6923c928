/** Which metrics the filter of the charts shows: by words here, by a regular expression as the server finds them. */

import { useEffect, useState } from "preact/hooks";

import type { Page } from "../../state/page.ts";
import { compileFilter } from "../../ui/filter.ts";
import { TYPING_MS } from "./wide-metrics.ts";

export interface MetricFilter {
  readonly matches: (name: string) => boolean;
  readonly problem: string | null;
}

const MOST_METRICS = 2000;
/** Runs of a sweep have the same metrics, so few are asked. */
const MOST_RUNS = 24;
const ALL: MetricFilter = { matches: () => true, problem: null };

export function useMetricFilter(page: Page): MetricFilter {
  const { view, source, metrics } = page;
  const text = view.metrics.value.trim();
  const isPattern = source.supportsQueries && view.metricsAreRegex.value && text !== "";
  const [found, setFound] = useState(ALL);
  const ids = isPattern ? runsToAsk(page) : [];
  useEffect(() => {
    if (!isPattern) {
      setFound(ALL);
      return undefined;
    }
    let isWanted = true;
    const ask = (): void => {
      Promise.all(ids.map((id) => source.get("run_metrics", id, { find: text, pattern: true, limit: MOST_METRICS }))).then(
        (lists) => {
          const names = new Set(lists.flatMap((list) => list.metrics.map(({ name }) => name)));
          if (isWanted) setFound({ matches: (name) => names.has(name), problem: null });
        },
        (error: unknown) => {
          if (isWanted) setFound({ ...ALL, problem: error instanceof Error ? error.message : String(error) });
        },
      );
    };
    const timer = setTimeout(ask, TYPING_MS);
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [isPattern, text, ids.join(" "), metrics.value.length]);
  return isPattern ? found : { matches: compileFilter(text), problem: null };
}

/** One run for each set of metrics. */
function runsToAsk({ runs, details }: Page): readonly string[] {
  const known = new Map<string, string>();
  for (const { id } of runs.drawn.value) {
    const detail = details.of(id).value;
    if (detail !== null) known.set(detail.metrics.map(({ name }) => name).join("\n"), id);
  }
  return [...known.values()].slice(0, MOST_RUNS);
}
