/** What is known of single runs beside their row: configuration, metrics, roles. Asked for once, and again when it may have changed. */

import { batch, signal } from "@preact/signals";
import type { ReadonlySignal, Signal } from "@preact/signals";

import type { Source } from "../source/source.ts";
import type { MetricRow, RunDetail, RunParams } from "../wire.ts";

export interface Details {
  /** Null until the first answer. Reading it asks for it. */
  of(run: string): ReadonlySignal<RunDetail | null>;
  /** What is known by now, without asking. */
  known(run: string): RunDetail | null;
  refetch(run: string): void;
  /** Ask for metrics that the answer about a wide run leaves out, and list them with it. How many there are of the kind asked for. */
  find(run: string, wanted: RunParams["run_metrics"]): Promise<number>;
  /** A run that was deleted is not asked for again. */
  forget(run: string): void;
  /** Ask for nothing until the work is done: a run that is being deleted may be gone already. */
  hold(work: () => Promise<void>): Promise<void>;
}

const AGAIN_MS = 1000;
/** Answers about several runs come one after the other; panels are drawn once for all that come within this time. */
const TOGETHER_MS = 40;
/** Of metrics that were found, the last ones are kept: a long search must not fill the memory. */
const MOST_FOUND = 4000;

/** Whether the answer about a run leaves out some of its metrics. */
export function isWide({ sections = {} }: Pick<RunDetail, "sections">): boolean {
  return Object.keys(sections).length > 0;
}

function keyOf({ name, axis }: MetricRow): string {
  return `${axis}\n${name}`;
}

function withFound(detail: RunDetail, found: ReadonlyMap<string, MetricRow>): RunDetail {
  if (found.size === 0 || !isWide(detail)) return detail;
  const known = new Set(detail.metrics.map(keyOf));
  return {
    ...detail,
    metrics: [
      ...detail.metrics,
      ...[...found].filter(([key]) => !known.has(key)).map(([, metric]) => metric),
    ],
  };
}

interface CacheEntry {
  readonly detail: Signal<RunDetail | null>;
  answer: RunDetail | null;
  found: ReadonlyMap<string, MetricRow>;
  isAsked: boolean;
  isOutdated: boolean;
}

export function createDetails(source: Source, onProblem: (sentence: string) => void): Details {
  const all = new Map<string, CacheEntry>();
  const arrived: CacheEntry[] = [];
  let numAwaited = 0;
  let numHolds = 0;
  let waiting: ReturnType<typeof setTimeout> | undefined;
  const show = (): void => {
    clearTimeout(waiting);
    waiting = undefined;
    batch(() => {
      for (const { detail, answer, found } of arrived.splice(0))
        detail.value = answer === null ? null : withFound(answer, found);
    });
  };
  const ask = (run: string, entry: CacheEntry): void => {
    entry.isAsked = true;
    entry.isOutdated = false;
    numAwaited++;
    source
      .get("run", run)
      .then(
        (detail) => {
          entry.answer = detail;
          arrived.push(entry);
        },
        (error: unknown) => onProblem(error instanceof Error ? error.message : String(error)),
      )
      .then(() => {
        if (--numAwaited === 0) show();
        else waiting ??= setTimeout(show, TOGETHER_MS);
      })
      .finally(() =>
        setTimeout(() => {
          entry.isAsked = false;
          if (entry.isOutdated && numHolds === 0 && all.get(run) === entry) ask(run, entry);
        }, AGAIN_MS),
      );
  };
  return {
    of(run) {
      let entry = all.get(run);
      if (entry === undefined) {
        entry = {
          detail: signal(null),
          answer: null,
          found: new Map(),
          isAsked: false,
          isOutdated: false,
        };
        all.set(run, entry);
        if (numHolds === 0) ask(run, entry);
        else entry.isOutdated = true;
      }
      return entry.detail;
    },
    forget: (run) => void all.delete(run),
    async hold(work) {
      numHolds++;
      try {
        await work();
      } finally {
        numHolds--;
        for (const [run, entry] of all)
          if (entry.isOutdated && !entry.isAsked && numHolds === 0) ask(run, entry);
      }
    },
    known: (run) => all.get(run)?.detail.peek() ?? null,
    async find(run, wanted) {
      const { metrics, total } = await source.get("run_metrics", run, wanted);
      const entry = all.get(run);
      if (entry === undefined || entry.answer === null) return total;
      const found = new Map([
        ...entry.found,
        ...metrics.map((metric) => [keyOf(metric), metric] as const),
      ]);
      entry.found = new Map([...found].slice(-MOST_FOUND));
      entry.detail.value = withFound(entry.answer, entry.found);
      return total;
    },
    refetch(run) {
      const entry = all.get(run);
      if (entry === undefined) return;
      if (entry.isAsked || numHolds > 0) entry.isOutdated = true;
      else ask(run, entry);
    },
  };
}
