/** Choosing columns: from a list that can be searched, or one for an axis. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { Dialog } from "../ui/dialog.tsx";
import { compileFilter } from "../ui/filter.ts";
import { SearchBox } from "../ui/search-box.tsx";

export interface ColumnChoice {
  readonly id: string;
  readonly title: string;
}

export interface ColumnGroup {
  readonly title: string;
  readonly choices: readonly ColumnChoice[];
}

const MOST_SHOWN = 400;

export function ColumnDialog(props: { readonly groups: readonly ColumnGroup[]; readonly chosen: readonly string[]; readonly onChange: (ids: readonly string[]) => void }): JSX.Element {
  const { groups, chosen, onChange } = props;
  const [isOpen, setOpen] = useState(false);
  const [query, setQuery] = useState("");
  const matches = compileFilter(query);
  const all = groups.flatMap(({ choices }) => choices);
  const titles = new Map(all.map(({ id, title }) => [id, title]));
  const fitting = all.filter(({ title }) => matches(title)).map(({ id }) => id);
  const shownGroups = query === "" ? [{ title: "Chosen", choices: chosen.map((id) => ({ id, title: titles.get(id) ?? id.slice(id.indexOf(":") + 1) })) }, ...withoutChosen(groups, chosen)] : groups;
  return (
    <>
      <button type="button" class="button" onClick={() => setOpen(true)}>Columns {chosen.length}</button>
      <Dialog title="Columns" isOpen={isOpen} onClose={() => setOpen(false)}>
        <SearchBox label="Find a column" query={query} onChange={setQuery} />
        {query !== "" && (
          <div class="columns-tools">
            <span class="card-note">{fitting.length} match</span>
            <button type="button" class="button" disabled={fitting.length === 0} onClick={() => onChange([...new Set([...chosen, ...fitting])])}>Add all</button>
            <button type="button" class="button" disabled={fitting.length === 0} onClick={() => onChange(chosen.filter((id) => !fitting.includes(id)))}>Remove all</button>
          </div>
        )}
        <div class="columns">
          {query !== "" && fitting.length === 0 && <p class="card-note">No column matches.</p>}
          {shownGroups.map(({ title, choices }) => {
            const matching = choices.filter((choice) => matches(choice.title));
            const fits = matching.slice(0, MOST_SHOWN);
            return fits.length === 0 ? null : (
              <fieldset key={title}>
                <legend>{title}{matching.length > fits.length ? ` (the first ${fits.length} of ${matching.length}; search for the others)` : ""}</legend>
                {fits.map((choice) => (
                  <label key={choice.id} class="columns-choice">
                    <input type="checkbox" checked={chosen.includes(choice.id)}
                      onChange={(event) => onChange(event.currentTarget.checked ? [...chosen, choice.id] : chosen.filter((id) => id !== choice.id))} />
                    <span>{choice.title}</span>
                  </label>
                ))}
              </fieldset>
            );
          })}
        </div>
      </Dialog>
    </>
  );
}

function withoutChosen(groups: readonly ColumnGroup[], chosen: readonly string[]): readonly ColumnGroup[] {
  return groups.map(({ title, choices }) => ({ title, choices: choices.filter(({ id }) => !chosen.includes(id)) }));
}

export function ColumnSelect(props: { readonly label: string; readonly groups: readonly ColumnGroup[]; readonly value: string; readonly onChange: (id: string) => void }): JSX.Element {
  return (
    <label class="column-select">
      <span class="slider-label">{props.label}</span>
      <select class="select" value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        {props.groups.map(({ title, choices }) => (
          <optgroup key={title} label={title}>
            {choices.map(({ id, title: name }) => <option key={id} value={id}>{name}</option>)}
          </optgroup>
        ))}
      </select>
    </label>
  );
}
