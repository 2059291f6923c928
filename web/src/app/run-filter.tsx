/** The filter of the run list: words, a regular expression that the server matches, or a query with completed field names. */

import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";

import { formatWhole } from "../chart/index.ts";
import type { Page } from "../state/page.ts";
import { fieldOf } from "../state/run-pages.ts";
import { completed, completionsOf } from "../ui/completion.ts";
import { SearchBox } from "../ui/search-box.tsx";

const FIELDS = [
  "name", "id", "project", "status", "tags", "notes", "group", "job_type", "owner", "parent", "hidden", "created", "updated", "attempts", "step", "epoch",
  "total_steps", "records", "damaged", "errors", "warnings", "open_errors", "open_warnings", "nonfinite",
];
const MOST = 8;
/** As much of a query as the narrowest list has room for. */
const EXCERPT = 32;

export function RunFilter({ page }: { readonly page: Page }): JSX.Element {
  const { view, runs, source } = page;
  const [isChosen, setChosen] = useState(false);
  const isQuery = view.filterMode.value === "query";
  const count = runs.isLoaded.value ? formatWhole(runs.numFitting.value) : "";
  const canQuery = source.supportsQueries;
  return (
    <div class={`runs-filter${isQuery ? " is-query" : ""}`} id="run-filter">
      {isQuery ? <QueryBox page={page} count={count} isFocused={isChosen} /> : (
        <SearchBox label="Filter runs" query={view.filter.value} isRegex={canQuery ? view.filterMode.value === "regex" : undefined} problem={runs.filterProblem.value?.split("\n")[0]!.replace(/:$/, ".") ?? null} count={count}
          onChange={(query, isRegex) => {
            view.filter.value = query;
            view.filterMode.value = isRegex ? "regex" : "words";
          }} />
      )}
      <button type="button" class="button is-quiet runs-query" aria-pressed={isQuery} disabled={!canQuery && !isQuery}
        title={canQuery ? 'Query, such as: config.lr < 3e-4 and status == "running"' : "Queries need the server; in an archive, filter by words and *."}
        onClick={() => {
          setChosen(true);
          view.filterMode.value = isQuery ? "words" : "query";
        }}>where</button>
    </div>
  );
}

function QueryBox({ page, count, isFocused }: { readonly page: Page; readonly count: string; readonly isFocused: boolean }): JSX.Element {
  const { view, runs } = page;
  const id = useId();
  const box = useRef<HTMLInputElement>(null);
  const [caret, setCaret] = useState<number | null>(null);
  const [active, setActive] = useState(0);
  useEffect(() => {
    if (isFocused) box.current?.focus();
  }, []);
  const text = view.filter.value;
  const found = caret === null ? [] : completionsOf(text, caret, fieldsOf(page)).slice(0, MOST);
  const isOpen = found.length > 0;
  const take = (word: string): void => {
    const next = completed(text, caret ?? text.length, word);
    // At once, not with the next picture: the next key may come before that.
    if (box.current !== null) {
      box.current.value = next.text;
      box.current.focus();
      box.current.setSelectionRange(next.caret, next.caret);
    }
    view.filter.value = next.text;
    setCaret(null);
  };
  const problem = runs.filterProblem.value;
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Escape") {
      event.stopPropagation();
      if (isOpen) setCaret(null);
      else view.filter.value = "";
    }
    if (!isOpen) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") setActive((active + (event.key === "ArrowDown" ? 1 : found.length - 1)) % found.length);
    else if (event.key === "Enter" || event.key === "Tab") take(found[Math.min(active, found.length - 1)]!);
    else return;
    event.preventDefault();
  };
  return (
    <div class={`search${problem === null ? "" : " is-wrong"}`}>
      <input ref={box} type="search" class="runs-query-text" aria-label="Query runs" placeholder="config.lr < 3e-4" value={text} title={text} spellcheck={false} autocomplete="off"
        role="searchbox" aria-invalid={problem !== null} aria-controls={isOpen ? id : undefined} aria-activedescendant={isOpen ? `${id}-${active}` : undefined} onKeyDown={onKeyDown}
        onInput={(event) => {
          view.filter.value = event.currentTarget.value;
          setCaret(event.currentTarget.selectionStart);
          setActive(0);
        }} onBlur={() => setTimeout(() => setCaret(null), 150)} />
      <span class="search-count">{count}</span>
      {isOpen && (
        <div id={id} class="completions" role="listbox" aria-label="Fields">
          {found.map((word, index) => (
            <div key={word} id={`${id}-${index}`} role="option" aria-selected={index === active} class="completion" title={word}
              onPointerDown={(event) => {
                event.preventDefault();
                take(word);
              }}>{word}</div>
          ))}
        </div>
      )}
      {problem !== null && !isOpen && <Problem text={problem} />}
    </div>
  );
}

/** A sentence and, under it, the place in the query that it is about. */
function Problem({ text }: { readonly text: string }): JSX.Element {
  const [sentence, shown, mark] = text.split("\n");
  return (
    <div class="search-error" role="status">
      {sentence}
      {shown !== undefined && mark !== undefined && <pre>{excerptOf(shown, mark)}</pre>}
    </div>
  );
}

function fieldsOf({ runs, metrics, setNames }: Page): readonly string[] {
  const names = [...new Set([...metrics.value.map(({ name }) => name), ...setNames.value])];
  return [
    ...FIELDS,
    ...runs.configKeys.value.map((key) => fieldOf("config", key)),
    ...names.flatMap((name) => [fieldOf("summary", name, "last"), fieldOf("summary", name, "min"), fieldOf("best", name)]),
  ];
}

/** The part of a query around the mark under it, on two lines that do not wrap. */
export function excerptOf(shown: string, mark: string): string {
  const text = shown.trimStart();
  const at = mark.indexOf("^") - (shown.length - text.length);
  if (text.length <= EXCERPT) return `${text}\n${" ".repeat(Math.max(0, at))}^`;
  const start = Math.min(Math.max(0, at - EXCERPT / 2), text.length - EXCERPT);
  const [before, after] = [start === 0 ? "" : "…", start + EXCERPT >= text.length ? "" : "…"];
  return `${before}${text.slice(start, start + EXCERPT)}${after}\n${" ".repeat(Math.max(0, before.length + at - start))}^`;
}
