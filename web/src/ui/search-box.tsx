/** A search field with a switch for regular expressions. */

import type { JSX } from "preact";
import { useId } from "preact/hooks";

import { compileFilter } from "./filter.ts";

export interface SearchBoxProps {
  readonly label: string;
  readonly query: string;
  readonly isRegex: boolean;
  /** How many of how many match, shown at the end of the field. */
  readonly count?: string;
  readonly onChange: (query: string, isRegex: boolean) => void;
}

export function SearchBox({ label, query, isRegex, count, onChange }: SearchBoxProps): JSX.Element {
  const id = useId();
  const { error } = compileFilter(query, isRegex);
  return (
    <div class={`search${error === null ? "" : " is-wrong"}`}>
      <input type="search" placeholder={label} aria-label={label} value={query} spellcheck={false} autocomplete="off"
        aria-invalid={error !== null} aria-describedby={error === null ? undefined : id}
        onInput={(event) => onChange(event.currentTarget.value, isRegex)}
        onKeyDown={(event) => {
          if (event.key !== "Escape" || query === "") return;
          event.stopPropagation();
          onChange("", isRegex);
        }} />
      {count !== undefined && <span class="search-count">{count}</span>}
      <button type="button" class="search-regex" aria-pressed={isRegex} title="Regular expression" aria-label="Regular expression"
        onClick={() => onChange(query, !isRegex)}>.*</button>
      {error !== null && <div id={id} class="search-error" role="status">{error}</div>}
    </div>
  );
}
