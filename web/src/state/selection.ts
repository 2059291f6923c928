/** Runs that were ticked to be changed together, and those changes; each can be undone. */

import { batch, computed, effect, signal } from "@preact/signals";
import type { ReadonlySignal, Signal } from "@preact/signals";

import type { Source } from "../source/source.ts";
import type { Toasts } from "../ui/toast.tsx";
import type { ChosenRuns, Labels, LabelsChange, LabelsChanged, Refused } from "../wire.ts";
import type { Runs } from "./runs.ts";
import type { View } from "./view.ts";

export interface Selection {
  /** Whether rows of the list have boxes to tick. */
  readonly isOn: Signal<boolean>;
  readonly count: ReadonlySignal<number>;
  /** Null where nothing can be changed, as in a saved page. */
  readonly actions: SelectionActions | null;
  isSelected(id: string): boolean;
  /** Tick or untick a run; with `isRange`, all from the last one that was ticked or unticked up to it, as that one. */
  toggle(id: string, isRange?: boolean): void;
  selectAll(): void;
  clear(): void;
}

export interface SelectionActions {
  tag(add: readonly string[], remove: readonly string[]): Promise<void>;
  note(text: string): Promise<void>;
  hide(isHidden: boolean): Promise<void>;
  remove(): Promise<void>;
  /** The same for one run, whatever is ticked. */
  removeOne(id: string): Promise<void>;
  hideOne(id: string, isHidden: boolean): Promise<void>;
  restore(keys: readonly string[]): Promise<void>;
}

interface Host {
  readonly source: Source;
  readonly runs: Runs;
  readonly view: View;
  readonly toasts: Toasts;
  readonly onChanged: (ids: readonly string[]) => void;
  readonly onRemoved: (ids: readonly string[]) => void;
  /** Around a deletion, up to and with `onRemoved`. */
  readonly whileRemoving: (work: () => Promise<void>) => Promise<void>;
}

export function createSelection(host: Host): Selection {
  const { source, runs, toasts } = host;
  /** The runs that were ticked; where a query selects, those that were unticked. */
  const ids = signal<ReadonlySet<string>>(new Set());
  /** All that fit, when there are more than this page has rows of. */
  const query = signal<{ readonly text: string; readonly count: number } | null>(null);
  const isOn = signal(false);
  let last: string | null = null;
  const isSelected = (id: string): boolean => ids.value.has(id) === (query.value === null);
  const count = computed(() => (query.value === null ? ids.value.size : Math.max(0, query.value.count - ids.value.size)));
  const clear = (): void => {
    ids.value = new Set();
    query.value = null;
    last = null;
  };
  const chosen = (): ChosenRuns => (query.peek() === null ? { runs: [...ids.peek()], query: null } : { runs: null, query: query.peek()!.text, exclude: [...ids.peek()] });
  /** Tick or untick runs; among those that a query selects, the unticked ones are named. */
  const set = (which: Iterable<string>, isTicked: boolean): void => {
    const next = new Set(ids.peek());
    for (const id of which) {
      if (isTicked === (query.peek() === null)) next.add(id);
      else next.delete(id);
    }
    ids.value = next;
  };
  // Another filter lists other runs than those that "all" stood for.
  effect(() => {
    if (query.value !== null && query.value.text !== runs.listQuery()) clear();
  });
  return {
    isOn, isSelected, count, clear,
    toggle(id, isRange = false) {
      const isTicked = !isSelected(id);
      const from = last;
      last = id;
      set([id], isTicked);
      if (!isRange || from === null) return;
      void runs.idsBetween(from, id).then((between) => set(between, isTicked), (error: unknown) => toasts.show(error instanceof Error ? error.message : String(error), "critical"));
    },
    selectAll() {
      const known = runs.fitting.peek();
      const count = runs.numFitting.peek();
      batch(() => {
        const isHere = known.length === count;
        ids.value = new Set(isHere ? known.map(({ id }) => id) : []);
        query.value = isHere ? null : { text: runs.listQuery(), count };
      });
    },
    actions: source.changes === null ? null : createActions({ ...host, chosen, clear }),
  };
}

interface ActionsHost extends Host {
  readonly chosen: () => ChosenRuns;
  readonly clear: () => void;
}

function createActions({ source, runs, view, toasts, chosen, clear, onChanged, onRemoved, whileRemoving }: ActionsHost): SelectionActions {
  const changes = source.changes!;
  const tried = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      toasts.show(error instanceof Error ? error.message : String(error), "critical");
    }
  };
  const changed = (ids: readonly string[]): void => {
    runs.reload();
    onChanged(ids);
  };
  const change = (which: ChosenRuns, asked: LabelsChange, said: string): Promise<void> => tried(async () => {
    const answer = await changes.labels({ ...which, change: asked });
    refuse(toasts, answer.refused, "changed");
    changed(answer.changed.map(({ id }) => id));
    if (answer.changed.length === 0) return;
    toasts.show(`${counted(answer.changed.length)} ${said}.`, "info", {
      label: "Undo",
      run: () => void tried(async () => {
        const undone = await changes.labels({ changes: undoOf(answer, asked) });
        refuse(toasts, undone.refused, "changed back");
        changed(undone.changed.map(({ id }) => id));
      }),
    });
  });
  const restore = (keys: readonly string[]): Promise<void> => tried(async () => {
    const answer = await changes.restore([...keys]);
    refuse(toasts, answer.refused, "restored");
    if (answer.restored.length > 0) toasts.show(`${counted(answer.restored.length)} restored.`, "good");
    changed(answer.restored);
  });
  const remove = (which: ChosenRuns): Promise<void> => tried(() => whileRemoving(async () => {
    const { removed, refused } = await changes.remove(which);
    refuse(toasts, refused, "deleted");
    const gone = new Set(removed.map(({ id }) => id));
    runs.forget(gone);
    onRemoved([...gone]);
    if (view.focus.peek() !== null && gone.has(view.focus.peek()!)) view.focus.value = null;
    if (view.shown.peek() !== null) view.shown.value = view.shown.peek()!.filter((id) => !gone.has(id));
    changed([]);
    if (removed.length === 0) return;
    const what = removed.length === 1 ? removed[0]!.name : `${removed.length} runs`;
    toasts.show(`${what} moved to the trash.`, "info", { label: "Undo", run: () => void restore(removed.map(({ key }) => key)) });
  }));
  return {
    restore,
    async tag(add, removeTags) {
      await change(chosen(), { add_tags: [...add], remove_tags: [...removeTags] }, add.length > 0 ? `tagged ${add.join(", ")}` : `lost the tag ${removeTags.join(", ")}`);
    },
    note: (text) => change(chosen(), { notes: text }, text === "" ? "have no note now" : "have the new note"),
    hide: async (isHidden) => {
      await change(chosen(), { hidden: isHidden }, isHidden ? "hidden" : "shown again");
      clear();
    },
    hideOne: (id, isHidden) => change({ runs: [id], query: null }, { hidden: isHidden }, isHidden ? "hidden" : "shown again"),
    remove: async () => {
      await remove(chosen());
      clear();
    },
    removeOne: (id) => remove({ runs: [id], query: null }),
  };
}

/** What takes a change back, run by run, and leaves alone what others have changed meanwhile. */
export function undoOf({ changed }: LabelsChanged, asked: LabelsChange): Record<string, LabelsChange> {
  return Object.fromEntries(changed.map(({ id, labels }) => [id, undoOne(labels, asked)]));
}

function undoOne(before: Labels, asked: LabelsChange): LabelsChange {
  const had = new Set(before.tags ?? []);
  return {
    ...(asked.hidden === undefined ? {} : { hidden: before.hidden }),
    ...(asked.notes === undefined ? {} : { notes: before.notes, ...(asked.notes === null ? {} : { notes_before: asked.notes }) }),
    remove_tags: (asked.add_tags ?? []).filter((tag) => !had.has(tag)),
    add_tags: (asked.remove_tags ?? []).filter((tag) => had.has(tag)),
  };
}

function refuse(toasts: Toasts, refused: readonly Refused[], what: string): void {
  const [first] = refused;
  if (first === undefined) return;
  const more = refused.length === 1 ? "" : ` ${refused.length - 1} more could not be ${what} either.`;
  toasts.show(`${first.name} was not ${what}: ${first.reason}${more}`, "critical");
}

function counted(count: number): string {
  return count === 1 ? "1 run" : `${count} runs`;
}
