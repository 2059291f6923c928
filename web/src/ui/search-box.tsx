/** A search field for words. */

import type { JSX } from "preact";

export interface SearchBoxProps {
  readonly label: string;
  readonly query: string;
  /** How many of how many match, shown at the end of the field. */
  readonly count?: string;
  readonly onChange: (query: string) => void;
}

export function SearchBox({ label, query, count, onChange }: SearchBoxProps): JSX.Element {
  return (
    <div class="search">
      <input
        type="search"
        placeholder={label}
        aria-label={label}
        value={query}
        spellcheck={false}
        autocomplete="off"
        title={'Words or "phrases in quotes" that all must occur; * stands for any characters'}
        onInput={(event) => onChange(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Escape" || query === "") return;
          event.stopPropagation();
          onChange("");
        }}
      />
      {count !== undefined && <span class="search-count">{count}</span>}
    </div>
  );
}
