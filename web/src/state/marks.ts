/** What happened in the run in focus, and where: restarts, epochs, checkpoints, phases, throttled GPUs. */

import { computed, effect, signal } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";

import type { Update, Source } from "../source/source.ts";
import type { Mark, MarkKind, XKind } from "../wire.ts";

export interface PlacedMark {
  readonly kind: MarkKind;
  readonly label: string;
  readonly x: number;
  readonly gpu: number | null;
}

/** Kinds of records whose arrival adds a mark. */
const KINDS: ReadonlySet<string> = new Set(["resume", "epoch", "event"]);
const SOON_MS = 500;
/** Phases stand in records that a stream tells only as numbers, so they are asked for now and then. */
const LATER_MS = 10_000;

export function createMarks(source: Source, run: ReadonlySignal<string | null>) {
  const all = signal<readonly Mark[]>([]);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let dueAt = Infinity;
  const ask = (id: string): void => {
    clearTimeout(timer);
    dueAt = Infinity;
    source.get("marks", id).then(
      ({ marks }) => {
        if (run.peek() === id) all.value = marks;
      },
      // A chart without marks is still useful; the next update fetches them again.
      () => undefined,
    );
  };
  const askWithin = (id: string, ms: number): void => {
    const at = performance.now() + ms;
    if (at >= dueAt) return;
    dueAt = at;
    clearTimeout(timer);
    timer = setTimeout(() => ask(id), ms);
  };
  effect(() => {
    const id = run.value;
    all.value = [];
    if (id !== null) ask(id);
  });
  const byAxis = new Map<string, ReadonlySignal<readonly PlacedMark[]>>();
  return {
    /** Those that have a place along an axis, ascending; the same list until something happens. */
    onAxis(x: string): readonly PlacedMark[] {
      const known = byAxis.get(x) ?? computed(() => placed(all.value, x));
      byAxis.set(x, known);
      return known.value;
    },
    /** The phase that the training said it is in last; null where it said none. */
    phase: computed(() => all.value.findLast(({ kind }) => kind === "phase")?.label ?? null),
    apply(update: Update): void {
      const id = run.peek();
      if (id === null) return;
      if (update.type === "reset" && (update.run === null || update.run === id))
        askWithin(id, SOON_MS);
      if (update.type === "records" && update.run === id)
        askWithin(id, update.entries.some(({ kind }) => KINDS.has(kind)) ? SOON_MS : LATER_MS);
    },
  };
}

function placed(marks: readonly Mark[], axis: string): readonly PlacedMark[] {
  return marks
    .flatMap(({ kind, label, at, gpu }): PlacedMark[] => {
      const x = at[axis as XKind];
      return x === undefined ? [] : [{ kind, label, gpu, x }];
    })
    .sort((one, other) => one.x - other.x);
}
