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
  renew(run: string): void;
}

const AGAIN_MS = 1000;

interface Held {
  readonly detail: Signal<RunDetail | null>;
  isAsked: boolean;
  isOutdated: boolean;
}

export function createDetails(source: Source, onProblem: (sentence: string) => void): Details {
  const all = new Map<string, Held>();
  const ask = (run: string, held: Held): void => {
    held.isAsked = true;
    held.isOutdated = false;
    source.get("run", run).then(
      (detail) => {
        held.detail.value = detail;
      },
      (error: unknown) => onProblem(error instanceof Error ? error.message : String(error)),
    ).finally(() => setTimeout(() => {
      held.isAsked = false;
      if (held.isOutdated) ask(run, held);
    }, AGAIN_MS));
  };
  return {
    of(run) {
      let held = all.get(run);
      if (held === undefined) {
        held = { detail: signal(null), isAsked: false, isOutdated: false };
        all.set(run, held);
        ask(run, held);
      }
      return held.detail;
    },
    known: (run) => all.get(run)?.detail.peek() ?? null,
    renew(run) {
      const held = all.get(run);
      if (held === undefined) return;
      if (held.isAsked) held.isOutdated = true;
      else ask(run, held);
    },
  };
}
