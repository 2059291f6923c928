/** Summaries of metrics of many runs: asked for when columns need them, and again now and then while runs go on. */

import { useEffect, useState } from "preact/hooks";

import type { Page } from "../state/page.ts";
import { isEnded } from "../state/run-rows.ts";
import { MOST_ROWS } from "../state/run-pages.ts";
import type { MetricSummary } from "../wire.ts";
import type { Summaries } from "./compare-columns.ts";

const AGAIN_MS = 5000;
const PAGE_ROWS = 1000;
const NOTHING: Summaries = new Map();

interface ReadSummaries {
  readonly summaries: Summaries;
  /** Whether these are not yet those that were asked for. */
  readonly isReading: boolean;
}

/** The summaries of the metrics among some columns. */
export function useSummaries(page: Page, ids: readonly string[]): ReadSummaries {
  const names = [...new Set(ids)]
    .filter((id) => id.startsWith("metric:") && id !== "metric:")
    .map((id) => id.slice(7));
  const [found, setFound] = useState({ key: "", summaries: NOTHING });
  const list = page.runs.bigList.value;
  const key = JSON.stringify([names, list]);
  const numRuns = list === null ? page.runs.all.value.length : 0;
  const areLive = page.runs.all.value.some((row) => !isEnded(row));
  useEffect(() => {
    if (names.length === 0) return undefined;
    let isOver = false;
    const ask = async (): Promise<void> => {
      const all = new Map<string, Readonly<Record<string, MetricSummary>>>();
      for (let total = 1; all.size < total; ) {
        const answer = await page.source.runs({
          ...list,
          offset: all.size,
          limit: PAGE_ROWS,
          summaries: names,
        });
        if (isOver) return;
        for (const { id, summaries } of answer.rows) all.set(id, summaries);
        total =
          answer.rows.length === 0
            ? 0
            : list === null
              ? answer.total
              : Math.min(answer.total, MOST_ROWS);
      }
      setFound({ key, summaries: all });
    };
    const askQuietly = (): void => {
      if (!page.isPaused.peek())
        ask().catch((error: unknown) => {
          setFound((before) => ({ ...before, key }));
          page.toasts.show(error instanceof Error ? error.message : String(error));
        });
    };
    askQuietly();
    const timer = areLive ? setInterval(askQuietly, AGAIN_MS) : undefined;
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, [key, numRuns, areLive]);
  return { summaries: found.summaries, isReading: names.length > 0 && found.key !== key };
}
