/** What metrics of many runs amount to: asked for when columns need it, and again now and then while runs go on. */

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

/** Summaries of metrics; of so many last points where `tail` is not 0. */
export function useSummaries(page: Page, names: readonly string[], tail: number): ReadSummaries {
  const [found, setFound] = useState({ key: "", summaries: NOTHING });
  const list = page.runs.bigList.value;
  const key = JSON.stringify([names, tail, list]);
  const numRuns = list === null ? page.runs.all.value.length : 0;
  const areLive = page.runs.all.value.some((row) => !isEnded(row));
  useEffect(() => {
    if (names.length === 0) return undefined;
    let isOver = false;
    const ask = async (): Promise<void> => {
      const all = new Map<string, Readonly<Record<string, MetricSummary>>>();
      for (let total = 1; all.size < total; ) {
        const found = await page.source.runs({ ...list, offset: all.size, limit: PAGE_ROWS, summaries: names, tail });
        if (isOver) return;
        for (const { id, summaries } of found.rows) all.set(id, summaries);
        total = found.rows.length === 0 ? 0 : list === null ? found.total : Math.min(found.total, MOST_ROWS);
      }
      setFound({ key, summaries: all });
    };
    const askQuietly = (): void => {
      if (!page.isPaused.peek()) ask().catch((error: unknown) => {
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
