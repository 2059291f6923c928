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
const MOST_NAMES = 5;
const HINT = "Ctrl + Enter saves, Esc cancels";

/** Show runs in the charts, and mention it where charts cannot draw all of them. */
export function showInCharts(page: Page, ids: readonly string[]): void {
  const numShown = page.runs.showOnly(ids);
  if (numShown < ids.length)
    page.toasts.show(
      `The first ${numShown} of ${formatWhole(ids.length)} runs are shown: charts draw at most ${MOST_SHOWN} runs one by one. Group runs to draw more.`,
    );
}

/** Tags of a run as chips that can be taken away, and a field for another. */
export function RunTags({ page, row }: { readonly page: Page; readonly row: RunRow }): JSX.Element {
  const { actions } = page.selection;
  return (
    <span class="tags">
      {row.tags.map((tag) => (
        <span key={tag} class="chip">
          {tag}
          {actions !== null && (
            <button
              type="button"
              aria-label={`Remove the tag ${tag}`}
              title={`Remove the tag ${tag}`}
              onClick={() =>
                void actions.change(
                  oneRun(row.id),
                  { remove_tags: [tag] },
                  `The tag ${tag} was removed from`,
                )
              }
            >
              ×
            </button>
          )}
        </span>
      ))}
      {actions !== null && (
        <Editable
          label="New tag"
          text=""
          tagsOf={page}
          class="chip is-new"
          title="Add a tag"
          onDone={(text) => addTags(page, oneRun(row.id), text)}
        >
          {row.tags.length === 0 ? "+ tag" : "+"}
        </Editable>
      )}
    </span>
  );
}

/** The note of a run; a click changes it in its place. */
export function RunNote({
  page,
  row,
}: {
  readonly page: Page;
  readonly row: RunRow;
}): JSX.Element | null {
  const note = row.notes ?? "";
  if (page.selection.actions === null) return note === "" ? null : <p class="note">{note}</p>;
  return (
    <Editable
      label="Note"
      text={note}
      rows={3}
      class={`note${note === "" ? " is-new" : ""}`}
      title="Change the note"
      onDone={(text) => setNote(page, oneRun(row.id), text)}
    >
      {note === "" ? "Add a note" : note}
    </Editable>
  );
}

interface EditableProps extends Omit<InlineProps, "onEnd"> {
  readonly class: string;
  readonly title: string;
  readonly children: string;
  /** Called with a text that was changed. */
  readonly onDone: (text: string) => void;
}

/** A button that becomes a field for its text, and has the focus again when a key ended that. */
export function Editable({
  class: name,
  title,
  children,
  onDone,
  ...field
}: EditableProps): JSX.Element {
  const [isEditing, setEditing] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const isByKey = useRef(false);
  useLayoutEffect(() => void (isByKey.current && button.current?.focus()), [isEditing]);
  if (!isEditing)
    return (
      <button
        ref={button}
        type="button"
        class={name}
        title={title}
        aria-label={children.startsWith("+") ? title : undefined}
        onClick={() => setEditing(true)}
      >
        {children}
      </button>
    );
  return (
    <Inline
      {...field}
      onEnd={(text, isKey) => {
        isByKey.current = isKey;
        setEditing(false);
        if (text !== null && text !== field.text) onDone(text);
      }}
    />
  );
}

interface InlineProps {
  readonly label: string;
  readonly text: string;
  /** More than one line where it is given. */
  readonly rows?: number;
  /** Completes the tags of the page's runs. */
  readonly tagsOf?: Page;
  /** Null leaves the text as it was; `isByKey` is false where the field was left. */
  readonly onEnd: (text: string | null, isByKey: boolean) => void;
}

/** A text that is edited where it stands: Enter, in one of several lines Ctrl + Enter, or a click elsewhere keeps it, Escape does not. */
export function Inline({ label, text, rows, tagsOf, onEnd }: InlineProps): JSX.Element {
  const field = useRef<HTMLTextAreaElement & HTMLInputElement>(null);
  const isOver = useRef(false);
  // Before the next key, which would be a shortcut; of several texts without content on a board, the first has the focus.
  useLayoutEffect(
    () => void (document.activeElement?.closest("textarea") == null && field.current?.focus()),
    [],
  );
  const end = (ended: string | null, isByKey: boolean): void => {
    if (isOver.current) return;
    isOver.current = true;
    onEnd(ended, isByKey);
  };
  const shared = {
    ref: field,
    class: "inline",
    "aria-label": label,
    defaultValue: text,
    maxLength: rows === undefined ? MOST_TAGS : MOST_NOTE,
    onInput: () => (isOver.current = false),
    onBlur: (event: Event) => end((event.currentTarget as HTMLInputElement).value.trim(), false),
    onKeyDown: (event: KeyboardEvent) => {
      const isDone =
        event.key === "Enter" && (rows === undefined || event.ctrlKey || event.metaKey);
      if (!isDone && event.key !== "Escape") return;
      event.preventDefault();
      event.stopPropagation();
      end(isDone ? field.current!.value.trim() : null, true);
    },
  };
  return rows === undefined ? (
    <>
      <input type="text" list="known-tags" {...shared} />
      {tagsOf !== undefined && <KnownTags page={tagsOf} />}
    </>
  ) : (
    <span class="inline-text">
      <textarea rows={rows} title={HINT} {...shared} />
      <small class="card-note">{HINT}</small>
    </span>
  );
}

function KnownTags({ page }: { readonly page: Page }): JSX.Element {
  const tags = [...new Set(page.runs.all.value.flatMap((row) => row.tags))].sort();
  return (
    <datalist id="known-tags">
      {tags.map((tag) => (
        <option key={tag} value={tag} />
      ))}
    </datalist>
  );
}

function tagsOf(text: string): string[] {
  return text
    .split(",")
    .map((tag) => tag.trim())
    .filter((tag) => tag !== "");
}

function tagWords(tags: readonly string[]): string {
  return tags.length === 1 ? `The tag ${tags[0]} was` : `The tags ${tags.join(", ")} were`;
}

function addTags(page: Page, which: ChosenRuns, text: string): void {
  const tags = tagsOf(text);
  if (tags.length > 0)
    void page.selection.actions?.change(which, { add_tags: tags }, `${tagWords(tags)} added to`);
}

function setNote(page: Page, which: ChosenRuns, text: string): void {
  void page.selection.actions?.change(
    which,
    { notes: text },
    text === "" ? "The note was removed from" : "The note was saved for",
  );
}

/** One menu that changes all runs that are checked. */
export function EditMenu({ page }: { readonly page: Page }): JSX.Element | null {
  const [form, setForm] = useState<"tags" | "note" | "delete" | null>(null);
  const [text, setText] = useState("");
  const {
    selection: { actions, checked },
    runs,
  } = page;
  const count = runs.numShown.value;
  if (actions === null || count === 0) return null;
  const counted = formatNumberOf(count, "run");
  const names = (runs.showsAll.value ? runs.fitting : runs.shown).value.filter(({ id }) =>
    runs.isShown(id),
  );
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
    if (tags.length > 0)
      void actions.change(checked(), { remove_tags: tags }, `${tagWords(tags)} removed from`);
  };
  return (
    <>
      <Menu
        label={`Edit ${counted}`}
        items={[
          { label: "Tags…", run: () => setForm("tags") },
          { label: "Note…", run: () => setForm("note") },
          "divider",
          runs.shown.value.every(({ hidden }) => hidden)
            ? {
                label: "Show in the list again",
                run: () =>
                  void actions.change(checked(), { hidden: false }, "The list shows again"),
              }
            : {
                label: "Hide from the list",
                run: () =>
                  void actions.change(checked(), { hidden: true }, "The list no longer shows"),
              },
          { label: `Delete ${counted}…`, run: () => setForm("delete") },
        ]}
      >
        Edit ▾
      </Menu>
      <Dialog title={`Delete ${counted}?`} isOpen={form === "delete"} onClose={close}>
        <ul>
          {names.slice(0, MOST_NAMES).map(({ id }) => (
            <li key={id}>{runs.label(id)}</li>
          ))}
          {count > MOST_NAMES && <li>and {formatWhole(count - MOST_NAMES)} more</li>}
        </ul>
        <p class="card-note">
          You can restore deleted runs from the trash. Runs that are still going are kept.
        </p>
        <span class="bulk-line">
          <button
            type="button"
            class="button is-primary"
            onClick={() => send(() => void actions.remove(checked()))}
          >
            Delete {counted}
          </button>
          {/* biome-ignore lint/a11y/noAutofocus: Enter must not delete */}
          <button type="button" class="button" autoFocus onClick={close}>
            Cancel
          </button>
        </span>
      </Dialog>
      <Dialog
        title={form === "note" ? `Note of ${counted}` : `Tags of ${counted}`}
        isOpen={form === "tags" || form === "note"}
        onClose={close}
      >
        <form
          class="rename"
          onSubmit={(event) => {
            event.preventDefault();
            send(() =>
              form === "note" ? setNote(page, checked(), text) : addTags(page, checked(), text),
            );
          }}
        >
          {form === "note" ? (
            <label>
              The new note; it replaces those they have{" "}
              <textarea
                rows={4}
                value={text}
                maxLength={MOST_NOTE}
                autoFocus
                title="Ctrl + Enter saves"
                onInput={(event) => setText(event.currentTarget.value)}
                onKeyDown={(event) =>
                  event.key === "Enter" &&
                  (event.ctrlKey || event.metaKey) &&
                  event.currentTarget.form!.requestSubmit()
                }
              />
            </label>
          ) : (
            <label>
              Tags, with commas between{" "}
              <input
                type="text"
                value={text}
                list="known-tags"
                maxLength={MOST_TAGS}
                autoFocus
                onInput={(event) => setText(event.currentTarget.value)}
              />
            </label>
          )}
          <KnownTags page={page} />
          <span class="bulk-line">
            <button type="submit" class="button is-primary">
              {form === "note" ? "Save" : "Add"}
            </button>
            {form === "tags" && (
              <button type="button" class="button" onClick={() => send(removeTags)}>
                Remove
              </button>
            )}
          </span>
        </form>
      </Dialog>
    </>
  );
}

export function TrashDialog({
  page,
  isOpen,
  onClose,
}: {
  readonly page: Page;
  readonly isOpen: boolean;
  readonly onClose: () => void;
}): JSX.Element {
  const [found, setFound] = useState<readonly TrashedRun[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const load = (): void => {
    page.source.changes?.trash().then(
      ({ runs }) => {
        setFound(runs);
        setProblem(null);
      },
      (error: unknown) => setProblem(error instanceof Error ? error.message : String(error)),
    );
  };
  useEffect(() => {
    if (isOpen) load();
    else setFound(null);
  }, [isOpen]);
  return (
    <Dialog title="Trash" isOpen={isOpen} onClose={onClose}>
      {problem !== null && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {found === null ? (
        problem === null && (
          <p class="card-note" aria-busy="true">
            Loading…
          </p>
        )
      ) : found.length === 0 ? (
        <p class="card-note">The trash is empty.</p>
      ) : (
        <>
          <p class="card-note">
            Runs stay here until you erase them with “epochal manage trash empty”.
          </p>
          <ul class="trash">
            {found.map((run) => (
              <li key={run.key}>
                <span class="trash-name" title={run.id}>
                  {run.project}/{run.name}
                </span>
                <span class="card-note">{formatWallClock(run.deleted).slice(0, 16)}</span>
                <button
                  type="button"
                  class="button"
                  onClick={() => void page.selection.actions?.restore([run.key]).then(load)}
                >
                  Restore
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
    </Dialog>
  );
}
