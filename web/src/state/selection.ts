/** Changes of runs, of one or of all that are checked; each can be undone. */

import { formatNumberOf } from "../chart/index.ts";
import type { Source } from "../source/source.ts";
import type { Toasts } from "../ui/toast.tsx";
import type { ChosenRuns, Labels, LabelsChange, LabelsChanged, Refused } from "../wire.ts";
import type { Runs } from "./runs.ts";
import type { View } from "./view.ts";

export type Selection = ReturnType<typeof createSelection>;

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

export function oneRun(id: string): ChosenRuns {
  return { runs: [id], query: null };
}

export function createSelection(host: Host) {
  const { source, runs, view } = host;
  return {
    /** The runs that are checked in the list. */
    checked: (): ChosenRuns =>
      runs.showsAll.peek()
        ? { runs: null, query: runs.listQuery(), exclude: [...view.without.peek()] }
        : { runs: runs.shown.peek().map(({ id }) => id), query: null },
    /** Null where nothing can be changed, as in a saved page. */
    actions: source.changes === null ? null : createActions(host),
  };
}

function createActions({ source, runs, view, toasts, onChanged, onRemoved, whileRemoving }: Host) {
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
  /** Runs that left the list are not in the charts either; where none is left there, the newest are shown. */
  const uncheck = (gone: ReadonlySet<string>): void => {
    const left = view.shown.peek()?.filter((id) => !gone.has(id)) ?? [];
    if (view.shown.peek() !== null) view.shown.value = left.length === 0 ? null : left;
  };
  const restore = (keys: readonly string[]): Promise<void> =>
    tried(async () => {
      const answer = await changes.restore([...keys]);
      refuse(toasts, answer.refused, "restored");
      if (answer.restored.length > 0)
        toasts.show(`${formatNumberOf(answer.restored.length, "run")} restored.`, "good");
      changed(answer.restored);
    });
  return {
    restore,
    /** Change tags, the note or whether runs are hidden; `words` say what happened, such as `The note was saved for`. */
    change: (which: ChosenRuns, asked: LabelsChange, words: string): Promise<void> =>
      tried(async () => {
        const answer = await changes.labels({ ...which, change: asked });
        refuse(toasts, answer.refused, "changed");
        changed(answer.changed.map(({ id }) => id));
        if (answer.changed.length === 0) return;
        if (asked.hidden === true) uncheck(new Set(answer.changed.map(({ id }) => id)));
        toasts.show(`${words} ${formatNumberOf(answer.changed.length, "run")}.`, "info", {
          label: "Undo",
          run: () =>
            void tried(async () => {
              const undone = await changes.labels({ changes: undoOf(answer, asked) });
              refuse(toasts, undone.refused, "changed back");
              changed(undone.changed.map(({ id }) => id));
            }),
        });
      }),
    remove: (which: ChosenRuns): Promise<void> =>
      tried(() =>
        whileRemoving(async () => {
          const { removed, refused } = await changes.remove(which);
          refuse(toasts, refused, "deleted");
          const gone = new Set(removed.map(({ id }) => id));
          runs.forget(gone);
          onRemoved([...gone]);
          if (view.focus.peek() !== null && gone.has(view.focus.peek()!)) view.focus.value = null;
          uncheck(gone);
          changed([]);
          if (removed.length === 0) return;
          const what =
            removed.length === 1 ? removed[0]!.name : formatNumberOf(removed.length, "run");
          toasts.show(`${what} moved to the trash.`, "info", {
            label: "Undo",
            run: () => void restore(removed.map(({ key }) => key)),
          });
        }),
      ),
  };
}

/** What takes a change back, run by run, and leaves alone what others have changed meanwhile. */
export function undoOf(
  { changed }: LabelsChanged,
  asked: LabelsChange,
): Record<string, LabelsChange> {
  return Object.fromEntries(changed.map(({ id, labels }) => [id, undoOne(labels, asked)]));
}

function undoOne(before: Labels, asked: LabelsChange): LabelsChange {
  const had = new Set(before.tags ?? []);
  return {
    ...(asked.hidden === undefined ? {} : { hidden: before.hidden }),
    ...(asked.notes === undefined
      ? {}
      : { notes: before.notes, ...(asked.notes === null ? {} : { notes_before: asked.notes }) }),
    remove_tags: (asked.add_tags ?? []).filter((tag) => !had.has(tag)),
    add_tags: (asked.remove_tags ?? []).filter((tag) => had.has(tag)),
  };
}

function refuse(toasts: Toasts, refused: readonly Refused[], what: string): void {
  const [first] = refused;
  if (first === undefined) return;
  const more =
    refused.length === 1 ? "" : ` ${refused.length - 1} more could not be ${what} either.`;
  toasts.show(`${first.name} was not ${what}: ${first.reason}${more}`, "critical");
}
