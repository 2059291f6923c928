/** The note or the tags of a run, to read and to edit in place. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import type { Page } from "../../state/page.ts";
import type { LabelsChange, RunRow } from "../../wire.ts";
import "./label-field.css";

export interface LabelFieldProps {
  readonly page: Page;
  readonly row: RunRow;
  readonly field: "notes" | "tags";
}

export function LabelField({ page, row, field }: LabelFieldProps): JSX.Element {
  const [draft, setDraft] = useState<string | null>(null);
  const text = field === "tags" ? row.tags.join(", ") : (row.notes ?? "");
  const shown = field === "tags" ? row.tags.map((tag) => <span key={tag} class="label-tag">{tag}</span>) : text;
  if (page.source.updateLabels === null) return <span class="label-text" title={text}>{shown}</span>;
  const what = `${field === "tags" ? "Tags" : "Note"} of ${page.runs.label(row.id)}`;
  const save = (): void => {
    if (draft !== null && draft.trim() !== text) void saveLabels(page, row.id, field === "tags" ? { tags: tagsOf(draft) } : { notes: draft.trim() || null });
    setDraft(null);
  };
  if (draft === null) {
    return <button type="button" class="label-text" aria-label={`${what}: ${text === "" ? "none" : text}`} title={text === "" ? "Click to add" : `${text}\n(click to edit)`} onClick={() => setDraft(text)}>{text === "" ? <span class="label-add">+</span> : shown}</button>;
  }
  return (
    <input class="label-input" type="text" aria-label={what} value={draft} placeholder={field === "tags" ? "tags, with commas between" : "note"} maxLength={field === "tags" ? 500 : 20_000}
      ref={focused}
      onInput={(event) => setDraft(event.currentTarget.value)} onBlur={save}
      onKeyDown={(event) => {
        if (event.key === "Enter") save();
        if (event.key === "Escape") setDraft(null);
        event.stopPropagation();
      }} />
  );
}

function focused(input: HTMLInputElement | null): void {
  input?.focus();
}

export function tagsOf(text: string): string[] {
  return [...new Set(text.split(",").map((tag) => tag.trim()).filter((tag) => tag !== ""))];
}

async function saveLabels(page: Page, id: string, change: LabelsChange): Promise<void> {
  try {
    await page.source.updateLabels?.(id, change);
    page.runs.reload();
    page.details.refetch(id);
  } catch (error) {
    page.toasts.show(error instanceof Error ? error.message : String(error), "critical");
  }
}
