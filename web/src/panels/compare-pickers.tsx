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
  const [{ query, isRegex }, setSearch] = useState({ query: "", isRegex: false });
  const filter = compileFilter(query, isRegex);
  return (
    <>
      <button type="button" class="button" onClick={() => setOpen(true)}>Columns {chosen.length}</button>
      <Dialog title="Columns" isOpen={isOpen} onClose={() => setOpen(false)}>
        <SearchBox label="Find a column" query={query} isRegex={isRegex} onChange={(text, asRegex) => setSearch({ query: text, isRegex: asRegex })} />
        <div class="columns">
          {groups.map(({ title, choices }) => {
            const fits = choices.filter((choice) => filter.matches(choice.title)).slice(0, MOST_SHOWN);
            return fits.length === 0 ? null : (
              <fieldset key={title}>
                <legend>{title}</legend>
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
