/** What can be done with the runs that were ticked, and the trash. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { formatNumberOf, formatWallClock, formatWhole } from "../chart/index.ts";
import type { Page } from "../state/page.ts";
import { MOST_SHOWN } from "../state/runs.ts";
import { Dialog } from "../ui/dialog.tsx";
import type { TrashedRun } from "../wire.ts";

type Form = "tag" | "note" | null;

/** Show runs in the charts, and say it where charts cannot take all. */
export function showInCharts(page: Page, ids: readonly string[], numWanted: number = ids.length): void {
  const numShown = page.runs.showOnly(ids);
  if (numShown < numWanted) page.toasts.show(`The first ${numShown} of ${formatWhole(numWanted)} runs are shown: charts draw at most ${MOST_SHOWN} runs one by one. Group runs to draw more.`);
}

export function BulkBar({ page }: { readonly page: Page }): JSX.Element | null {
  const { selection, runs } = page;
  const [form, setForm] = useState<Form>(null);
  const count = selection.count.value;
  const { actions } = selection;
  if (actions === null || !selection.isOn.value) return null;
  const isEmpty = count === 0;
  const ids = (): readonly string[] => runs.fitting.value.filter(({ id }) => selection.isSelected(id)).map(({ id }) => id);
  return (
    <div class="bulk" role="toolbar" aria-label="Selected runs">
      <div class="bulk-line">
        <b aria-live="polite">{formatWhole(count)} selected</b>
        <button type="button" class="button is-quiet" onClick={selection.selectAll}>all {formatWhole(runs.numFitting.value)}</button>
        {!isEmpty && <button type="button" class="button is-quiet" onClick={selection.clear}>none</button>}
        <span class="card-space" />
        <button type="button" class="button is-quiet" aria-label="End the selection" title="End the selection" onClick={() => {
          selection.clear();
          selection.isOn.value = false;
        }}>✕</button>
      </div>
      <div class="bulk-line">
        <button type="button" class="button" disabled={isEmpty} title="Show only these in the charts" onClick={() => showInCharts(page, ids(), count)}>Show</button>
        <button type="button" class="button" disabled={isEmpty} onClick={() => setForm("tag")}>Tag</button>
        <button type="button" class="button" disabled={isEmpty} onClick={() => setForm("note")}>Note</button>
        <button type="button" class="button" disabled={isEmpty} title="Leave them out of the list" onClick={() => void actions.hide(true)}>Hide</button>
        <button type="button" class="button is-danger" disabled={isEmpty} title="Move to the trash" onClick={() => void actions.remove()}>Delete</button>
      </div>
      <TagDialog page={page} isOpen={form === "tag"} onClose={() => setForm(null)} />
      <NoteDialog page={page} isOpen={form === "note"} onClose={() => setForm(null)} />
    </div>
  );
}

interface FormProps {
  readonly page: Page;
  readonly isOpen: boolean;
  readonly onClose: () => void;
}

function TagDialog({ page, isOpen, onClose }: FormProps): JSX.Element {
  const [text, setText] = useState("");
  const { selection, runs } = page;
  const known = [...new Set(runs.all.value.flatMap(({ tags }) => tags))].sort();
  const send = (isAdded: boolean): void => {
    const tags = text.split(",").map((tag) => tag.trim()).filter((tag) => tag !== "");
    if (tags.length > 0) void selection.actions?.tag(isAdded ? tags : [], isAdded ? [] : tags);
    setText("");
    onClose();
  };
  return (
    <Dialog title={`Tags of ${formatNumberOf(selection.count.value, "run")}`} isOpen={isOpen} onClose={onClose}>
      <form class="rename" onSubmit={(event) => {
        event.preventDefault();
        send(true);
      }}>
        <label>Tags, with commas between <input type="text" value={text} list="known-tags" maxLength={500} autoFocus onInput={(event) => setText(event.currentTarget.value)} /></label>
        <datalist id="known-tags">{known.map((tag) => <option key={tag} value={tag} />)}</datalist>
        <span class="bulk-line">
          <button type="submit" class="button is-primary">Add</button>
          <button type="button" class="button" onClick={() => send(false)}>Remove</button>
        </span>
      </form>
    </Dialog>
  );
}

function NoteDialog({ page, isOpen, onClose }: FormProps): JSX.Element {
  const [text, setText] = useState("");
  const { selection } = page;
  return (
    <Dialog title={`Note of ${formatNumberOf(selection.count.value, "run")}`} isOpen={isOpen} onClose={onClose}>
      <form class="rename" onSubmit={(event) => {
        event.preventDefault();
        void selection.actions?.note(text);
        setText("");
        onClose();
      }}>
        <label>The new note; it replaces those they have <textarea rows={4} value={text} maxLength={20000} autoFocus onInput={(event) => setText(event.currentTarget.value)} /></label>
        <button type="submit" class="button is-primary">Save</button>
      </form>
    </Dialog>
  );
}

export function TrashDialog({ page, isOpen, onClose }: FormProps): JSX.Element {
  const [found, setFound] = useState<readonly TrashedRun[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const look = (): void => {
    page.source.changes?.trash().then(({ runs }) => {
      setFound(runs);
      setProblem(null);
    }, (error: unknown) => setProblem(error instanceof Error ? error.message : String(error)));
  };
  useEffect(() => {
    if (isOpen) look();
    else setFound(null);
  }, [isOpen]);
  return (
    <Dialog title="Trash" isOpen={isOpen} onClose={onClose}>
      {problem !== null && <p class="problem" role="alert">{problem}</p>}
      {found === null ? problem === null && <p class="card-note" aria-busy="true">Looking…</p> : found.length === 0 ? <p class="card-note">The trash is empty.</p> : (
        <>
          <p class="card-note">Nothing is erased by itself; “epochal manage trash empty” erases.</p>
          <ul class="trash">
            {found.map((run) => (
              <li key={run.key}>
                <span class="trash-name" title={run.id}>{run.project}/{run.name}</span>
                <span class="card-note">{formatWallClock(run.deleted).slice(0, 16)}</span>
                <button type="button" class="button" onClick={() => void page.selection.actions?.restore([run.key]).then(look)}>Restore</button>
              </li>
            ))}
          </ul>
        </>
      )}
    </Dialog>
  );
}
