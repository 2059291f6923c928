/** What people write about runs: tags and notes of one run or of all that are checked; deleting, and the trash. */

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { formatNumberOf, formatWallClock, formatWhole } from "../chart/index.ts";
import type { Page } from "../state/page.ts";
import { MOST_SHOWN } from "../state/runs.ts";
import { oneRun } from "../state/selection.ts";
import { Dialog } from "../ui/dialog.tsx";
import { Menu } from "../ui/menu.tsx";
import type { ChosenRuns, RunRow, TrashedRun } from "../wire.ts";

const MOST_TAGS = 500;
const MOST_NOTE = 20000;

/** Show runs in the charts, and mention it where charts cannot draw all of them. */
export function showInCharts(page: Page, ids: readonly string[]): void {
  const numShown = page.runs.showOnly(ids);
  if (numShown < ids.length) page.toasts.show(`The first ${numShown} of ${formatWhole(ids.length)} runs are shown: charts draw at most ${MOST_SHOWN} runs one by one. Group runs to draw more.`);
}

/** Tags of a run as chips that can be taken away, and a field for another. */
export function RunTags({ page, row }: { readonly page: Page; readonly row: RunRow }): JSX.Element {
  const [isAdding, setAdding] = useState(false);
  const { actions } = page.selection;
  const add = (text: string): void => {
    setAdding(false);
    addTags(page, oneRun(row.id), text);
  };
  return (
    <span class="tags">
      {row.tags.map((tag) => (
        <span key={tag} class="chip">{tag}
          {actions !== null && <button type="button" aria-label={`Remove the tag ${tag}`} title={`Remove the tag ${tag}`} onClick={() => void actions.change(oneRun(row.id), { remove_tags: [tag] }, `lost the tag ${tag}`)}>×</button>}
        </span>
      ))}
      {isAdding
        ? <><Inline label="New tag" text="" list="known-tags" onDone={add} onCancel={() => setAdding(false)} /><KnownTags page={page} /></>
        : actions !== null && <button type="button" class="chip is-new" aria-label="Add a tag" title="Add a tag" onClick={() => setAdding(true)}>{row.tags.length === 0 ? "+ tag" : "+"}</button>}
    </span>
  );
}

/** The note of a run; a click changes it in its place. */
export function RunNote({ page, row }: { readonly page: Page; readonly row: RunRow }): JSX.Element | null {
  const [isEditing, setEditing] = useState(false);
  const { actions } = page.selection;
  const note = row.notes ?? "";
  const save = (text: string): void => {
    setEditing(false);
    if (text !== note) setNote(page, oneRun(row.id), text);
  };
  if (isEditing) return <Inline label="Note" text={note} rows={3} onDone={save} onCancel={() => setEditing(false)} />;
  if (actions === null) return note === "" ? null : <p class="note">{note}</p>;
  return <button type="button" class={`note${note === "" ? " is-new" : ""}`} title="Change the note" onClick={() => setEditing(true)}>{note === "" ? "Add a note" : note}</button>;
}

interface InlineProps {
  readonly label: string;
  readonly text: string;
  /** More than one line where it is given. */
  readonly rows?: number;
  readonly list?: string;
  readonly onDone: (text: string) => void;
  readonly onCancel: () => void;
}

/** A text that is edited where it stands: Enter or a click elsewhere keeps it, Escape does not. */
export function Inline({ label, text, rows, list, onDone, onCancel }: InlineProps): JSX.Element {
  const field = useRef<HTMLTextAreaElement & HTMLInputElement>(null);
  const isOver = useRef(false);
  // Before the next key, which would be a shortcut.
  useLayoutEffect(() => field.current?.focus(), []);
  const end = (finish: () => void): void => {
    if (isOver.current) return;
    isOver.current = true;
    finish();
  };
  const shared = {
    ref: field, class: "inline", "aria-label": label, defaultValue: text, maxLength: rows === undefined ? MOST_TAGS : MOST_NOTE,
    onBlur: () => end(() => onDone(field.current!.value.trim())),
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        end(onCancel);
      } else if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        end(() => onDone(field.current!.value.trim()));
      }
    },
  };
  return rows === undefined ? <input type="text" list={list} {...shared} /> : <textarea rows={rows} title="Enter saves, Shift+Enter begins a line" {...shared} />;
}

function KnownTags({ page }: { readonly page: Page }): JSX.Element {
  const tags = [...new Set(page.runs.all.value.flatMap((row) => row.tags))].sort();
  return <datalist id="known-tags">{tags.map((tag) => <option key={tag} value={tag} />)}</datalist>;
}

function tagsOf(text: string): string[] {
  return text.split(",").map((tag) => tag.trim()).filter((tag) => tag !== "");
}

function addTags(page: Page, which: ChosenRuns, text: string): void {
  const tags = tagsOf(text);
  if (tags.length > 0) void page.selection.actions?.change(which, { add_tags: tags }, `tagged ${tags.join(", ")}`);
}

function setNote(page: Page, which: ChosenRuns, text: string): void {
  void page.selection.actions?.change(which, { notes: text }, text === "" ? "lost the note" : "got the new note");
}

/** One menu that changes all runs that are checked. */
export function EditMenu({ page }: { readonly page: Page }): JSX.Element | null {
  const [form, setForm] = useState<"tags" | "note" | null>(null);
  const [text, setText] = useState("");
  const { selection: { actions, checked }, runs } = page;
  const count = runs.numShown.value;
  if (actions === null || count === 0) return null;
  const counted = formatNumberOf(count, "run");
  const close = (): void => {
    setForm(null);
    setText("");
  };
  const send = (finish: () => void): void => {
    finish();
    close();
  };
  const removeTags = (): void => {
    const tags = tagsOf(text);
    if (tags.length > 0) void actions.change(checked(), { remove_tags: tags }, `lost the tag ${tags.join(", ")}`);
  };
  return (
    <>
      <Menu label={`Edit ${counted}`} items={[
        { label: "Tags…", run: () => setForm("tags") },
        { label: "Note…", run: () => setForm("note") },
        "divider",
        runs.shown.value.every(({ hidden }) => hidden)
          ? { label: "Show in the list again", run: () => void actions.change(checked(), { hidden: false }, "shown again") }
          : { label: "Hide from the list", run: () => void actions.change(checked(), { hidden: true }, "hidden") },
        { label: `Delete ${counted}`, run: () => void actions.remove(checked()) },
      ]}>Edit {counted} ▾</Menu>
      <Dialog title={form === "note" ? `Note of ${counted}` : `Tags of ${counted}`} isOpen={form !== null} onClose={close}>
        <form class="rename" onSubmit={(event) => {
          event.preventDefault();
          send(() => (form === "note" ? setNote(page, checked(), text) : addTags(page, checked(), text)));
        }}>
          {form === "note"
            ? <label>The new note; it replaces those they have <textarea rows={4} value={text} maxLength={MOST_NOTE} autoFocus onInput={(event) => setText(event.currentTarget.value)} /></label>
            : <label>Tags, with commas between <input type="text" value={text} list="known-tags" maxLength={MOST_TAGS} autoFocus onInput={(event) => setText(event.currentTarget.value)} /></label>}
          <KnownTags page={page} />
          <span class="bulk-line">
            <button type="submit" class="button is-primary">{form === "note" ? "Save" : "Add"}</button>
            {form === "tags" && <button type="button" class="button" onClick={() => send(removeTags)}>Remove</button>}
          </span>
        </form>
      </Dialog>
    </>
  );
}

export function TrashDialog({ page, isOpen, onClose }: { readonly page: Page; readonly isOpen: boolean; readonly onClose: () => void }): JSX.Element {
  const [found, setFound] = useState<readonly TrashedRun[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const load = (): void => {
    page.source.changes?.trash().then(({ runs }) => {
      setFound(runs);
      setProblem(null);
    }, (error: unknown) => setProblem(error instanceof Error ? error.message : String(error)));
  };
  useEffect(() => {
    if (isOpen) load();
    else setFound(null);
  }, [isOpen]);
  return (
    <Dialog title="Trash" isOpen={isOpen} onClose={onClose}>
      {problem !== null && <p class="problem" role="alert">{problem}</p>}
      {found === null ? problem === null && <p class="card-note" aria-busy="true">Loading…</p> : found.length === 0 ? <p class="card-note">The trash is empty.</p> : (
        <>
          <p class="card-note">Runs stay here until you erase them with “epochal manage trash empty”.</p>
          <ul class="trash">
            {found.map((run) => (
              <li key={run.key}>
                <span class="trash-name" title={run.id}>{run.project}/{run.name}</span>
                <span class="card-note">{formatWallClock(run.deleted).slice(0, 16)}</span>
                <button type="button" class="button" onClick={() => void page.selection.actions?.restore([run.key]).then(load)}>Restore</button>
              </li>
            ))}
          </ul>
        </>
      )}
    </Dialog>
  );
}
