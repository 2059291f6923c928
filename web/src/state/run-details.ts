/** What is known of single runs beside their row: configuration, metrics, roles. Asked for once, and again when it may have changed. */

import { signal } from "@preact/signals";
import type { ReadonlySignal, Signal } from "@preact/signals";

import type { Source } from "../source/source.ts";
import type { RunDetail } from "../wire.ts";

export interface Details {
  /** Null until the first answer. Reading it asks for it. */
  of(run: string): ReadonlySignal<RunDetail | null>;
  /** What is known by now, without asking. */
  known(run: string): RunDetail | null;
  refetch(run: string): void;
  /** A run that was deleted is not asked for again. */
  forget(run: string): void;
}

const AGAIN_MS = 1000;

interface CacheEntry {
  readonly detail: Signal<RunDetail | null>;
  isAsked: boolean;
  isOutdated: boolean;
}

export function createDetails(source: Source, onProblem: (sentence: string) => void): Details {
  const all = new Map<string, CacheEntry>();
  const ask = (run: string, entry: CacheEntry): void => {
    entry.isAsked = true;
    entry.isOutdated = false;
    source.get("run", run).then(
      (detail) => {
        entry.detail.value = detail;
      },
      (error: unknown) => onProblem(error instanceof Error ? error.message : String(error)),
    ).finally(() => setTimeout(() => {
      entry.isAsked = false;
      if (entry.isOutdated && all.get(run) === entry) ask(run, entry);
    }, AGAIN_MS));
  };
  return {
    of(run) {
      let entry = all.get(run);
      if (entry === undefined) {
        entry = { detail: signal(null), isAsked: false, isOutdated: false };
        all.set(run, entry);
        ask(run, entry);
      }
      return entry.detail;
    },
    forget: (run) => void all.delete(run),
    known: (run) => all.get(run)?.detail.peek() ?? null,
    refetch(run) {
      const entry = all.get(run);
      if (entry === undefined) return;
      if (entry.isAsked) entry.isOutdated = true;
      else ask(run, entry);
    },
  };
}
