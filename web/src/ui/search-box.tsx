/** A search field for words, with a switch for regular expressions where the server matches them. */

import type { JSX } from "preact";
import { useId } from "preact/hooks";

export interface SearchBoxProps {
  readonly label: string;
  readonly query: string;
  /** Whether the text is a regular expression; undefined where only words are possible. */
  readonly isRegex?: boolean | undefined;
  /** What is wrong with the regular expression. */
  readonly problem?: string | null;
  /** How many of how many match, shown at the end of the field. */
  readonly count?: string;
  readonly onChange: (query: string, isRegex: boolean) => void;
}

export function SearchBox({ label, query, isRegex, problem = null, count, onChange }: SearchBoxProps): JSX.Element {
  const id = useId();
  const change = (text: string): void => onChange(text, isRegex === true);
  return (
    <div class={`search${problem === null ? "" : " is-wrong"}`}>
      <input type="search" placeholder={label} aria-label={label} value={query} spellcheck={false} autocomplete="off" title={isRegex === true ? "" : 'Words or "phrases in quotes" that all must occur; * stands for any characters'}
        aria-invalid={problem !== null} aria-describedby={problem === null ? undefined : id}
        onInput={(event) => change(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Escape" || query === "") return;
          event.stopPropagation();
          change("");
        }} />
      {count !== undefined && <span class="search-count">{count}</span>}
      {isRegex !== undefined && (
        <button type="button" class="search-regex" aria-pressed={isRegex} title="Regular expression" aria-label="Regular expression"
          onClick={() => onChange(query, !isRegex)}>.*</button>
      )}
      {problem !== null && <div id={id} class="search-error" role="status">{problem}</div>}
    </div>
  );
}
