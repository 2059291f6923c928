/** Choosing columns from a list that can be searched. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import type { Page } from "../state/page.ts";
import { Dialog } from "../ui/dialog.tsx";
import { compileFilter } from "../ui/filter.ts";
import { SearchBox } from "../ui/search-box.tsx";
import { columnOf, FACT_IDS, ROLES } from "./compare-columns.ts";

export interface ColumnGroup {
  readonly title: string;
  readonly choices: readonly { readonly id: string; readonly title: string }[];
}

const MOST_SHOWN = 400;

/** Every column that there is. */
export function useColumnGroups(page: Page): readonly ColumnGroup[] {
  const [metrics, keys, setNames] = [
    page.metrics.value,
    page.runs.configKeys.value,
    page.setNames.value,
  ];
  return useMemo(
    () => [
      { title: "Config", choices: keys.map((key) => ({ id: `config:${key}`, title: key })) },
      {
        title: "Metrics",
        choices: [
          ...ROLES,
          ...[...new Set([...metrics.map(({ name }) => name), ...setNames])]
            .sort()
            .map((name) => ({ id: `metric:${name}`, title: name })),
        ],
      },
      {
        title: "Run",
        choices: FACT_IDS.map((id) => ({
          id,
          title: columnOf(id, { summaries: new Map(), statistic: "last" })!.title,
        })),
      },
    ],
    [metrics, keys, setNames],
  );
}

/** The button and the dialog; `setting` is where the choice is kept, empty for the columns that are there by default. */
export function ColumnDialog({
  page,
  setting,
  chosen,
}: {
  readonly page: Page;
  readonly setting: string;
  readonly chosen: readonly string[];
}): JSX.Element {
  const kept = page.view.text(setting);
  const groups = useColumnGroups(page);
  const [isOpen, setOpen] = useState(false);
  const [query, setQuery] = useState("");
  const matches = compileFilter(query);
  const fitting = groups
    .map(({ title, choices }) => ({
      title,
      choices: choices.filter((choice) => matches(choice.title)),
    }))
    .filter(({ choices }) => choices.length > 0);
  const set = (ids: readonly string[]): void => {
    kept.value = JSON.stringify(ids);
  };
  return (
    <>
      <button type="button" class="button" onClick={() => setOpen(true)}>
        Columns {chosen.length}
      </button>
      {kept.value !== "" && (
        <button type="button" class="button is-quiet" onClick={() => (kept.value = "")}>
          Reset
        </button>
      )}
      <Dialog title="Columns" isOpen={isOpen} onClose={() => setOpen(false)}>
        <SearchBox label="Find a column" query={query} onChange={setQuery} />
        <div class="columns">
          {fitting.length === 0 && <p class="card-note">No column matches.</p>}
          {fitting.map(({ title, choices }) => (
            <fieldset key={title}>
              <legend>
                {title}
                {choices.length > MOST_SHOWN
                  ? ` (the first ${MOST_SHOWN} of ${choices.length}; search for the others)`
                  : ""}
              </legend>
              {choices.slice(0, MOST_SHOWN).map(({ id, title: name }) => (
                <label key={id} class="columns-choice">
                  <input
                    type="checkbox"
                    checked={chosen.includes(id)}
                    onChange={(event) =>
                      set(
                        event.currentTarget.checked
                          ? [...chosen, id]
                          : chosen.filter((one) => one !== id),
                      )
                    }
                  />
                  <span>{name}</span>
                </label>
              ))}
            </fieldset>
          ))}
        </div>
      </Dialog>
    </>
  );
}

/** The ids that were chosen; null for those by default. */
export function parseIds(text: string): readonly string[] | null {
  if (text === "") return null;
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value.filter((one) => typeof one === "string") : null;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return null;
  }
}
