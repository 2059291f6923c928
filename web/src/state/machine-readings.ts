/** Current readings of the runs' machines: streamed once a second while they are on screen, never stored. */

import { computed, effect, signal } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";

import type { Update } from "../source/source.ts";
import type { Machine } from "../wire.ts";

/** They come each second; what is older was left behind by a server or a companion that went. */
const FRESH_MS = 5000;

export function createReadings(isPaused: ReadonlySignal<boolean>) {
  const known = signal<ReadonlyMap<string, readonly Machine[]>>(new Map());
  const numWatching = signal(0);
  const isVisible = signal(!document.hidden);
  document.addEventListener("visibilitychange", () => (isVisible.value = !document.hidden));

  const keep = (run: string, machines: readonly Machine[]): void => {
    const next = new Map(known.peek());
    if (machines.length > 0) next.set(run, machines);
    else next.delete(run);
    known.value = next;
  };
  const forgetLater = (run: string, machines: readonly Machine[]): void => {
    setTimeout(() => {
      if (known.peek().get(run) === machines && !isPaused.peek()) keep(run, []);
    }, FRESH_MS);
  };
  effect(() => {
    if (!isPaused.value) for (const [run, machines] of known.peek()) forgetLater(run, machines);
  });
  return {
    /** By rank; none when nobody reads them now. */
    of: (run: string): readonly Machine[] => known.value.get(run) ?? NONE,
    /** Whether any are on screen. */
    isWanted: computed(() => isVisible.value && numWatching.value > 0),
    /** Whoever shows readings says so; returns the function that ends it. */
    watch(): () => void {
      numWatching.value++;
      return () => numWatching.value--;
    },
    apply(update: Update): void {
      if (update.type !== "live" || isPaused.peek()) return;
      keep(update.run, update.machines);
      forgetLater(update.run, update.machines);
    },
  };
}

const NONE: readonly Machine[] = [];
