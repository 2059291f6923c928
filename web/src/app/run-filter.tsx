/** The filter of the run list: words, or a query with completed field names. */

import type { JSX } from "preact";
import { useId, useRef, useState } from "preact/hooks";

import { formatWhole } from "../chart/index.ts";
import type { Page } from "../state/page.ts";
import { fieldOf } from "../state/run-pages.ts";
import { completed, completionsOf } from "../ui/completion.ts";
import { isQuery } from "../ui/filter.ts";

const FIELDS = [
  "name", "id", "project", "status", "tags", "notes", "group", "job_type", "owner", "parent", "hidden", "created", "updated", "attempts", "step", "epoch",
  "total_steps", "records", "damaged", "errors", "warnings", "open_errors", "open_warnings", "nonfinite",
];
const HELP = 'Words or "phrases in quotes" that all must occur, with * for any characters; or a query, such as: config.lr < 3e-4 and status == "running", or: name ~ "^run-\\d+$"';
const MOST = 8;
/** As much of a query as the narrowest list has room for. */
const EXCERPT = 32;

export function RunFilter({ page }: { readonly page: Page }): JSX.Element {
  const { view, runs, source } = page;
  const id = useId();
  const box = useRef<HTMLInputElement>(null);
  const [caret, setCaret] = useState<number | null>(null);
  const [chosen, setChosen] = useState<number | null>(null);
  const text = view.filter.value;
  const isQueried = isQuery(text);
  const found = caret === null || !source.supportsQueries ? [] : completionsOf(text, caret, fieldsOf(page)).slice(0, MOST);
  // A single word is completed when somebody chooses to; in a query the first field is at hand.
  const isOpen = found.length > 0 && (isQueried || /^\s*[a-z_]{3,}$/.test(text));
  const active = Math.min(chosen ?? (isQueried ? 0 : -1), found.length - 1);
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
    if (event.key === "Escape" && (isOpen || text !== "")) {
      event.stopPropagation();
      if (isOpen) setCaret(null);
      else view.filter.value = "";
    }
    if (!isOpen) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") setChosen((Math.max(0, active + (event.key === "ArrowDown" ? 1 : -1))) % found.length);
    else if ((event.key === "Enter" || event.key === "Tab") && active >= 0) take(found[active]!);
    else return;
    event.preventDefault();
  };
  return (
    <div class="runs-filter" id="run-filter">
      <div class={`search${problem === null ? "" : " is-wrong"}`}>
        <input ref={box} type="search" class={isQueried ? "runs-query-text" : ""} aria-label="Filter runs" placeholder={source.supportsQueries ? "Filter: words or config.lr < 3e-4" : "Filter runs"} value={text} title={text === "" ? HELP : text}
          spellcheck={false} autocomplete="off" role="searchbox" aria-invalid={problem !== null} aria-controls={isOpen ? id : undefined} aria-activedescendant={isOpen && active >= 0 ? `${id}-${active}` : undefined} onKeyDown={onKeyDown}
          onInput={(event) => {
            view.filter.value = event.currentTarget.value;
            setCaret(event.currentTarget.selectionStart);
            setChosen(null);
          }} onBlur={() => setTimeout(() => setCaret(null), 150)} />
        <span class="search-count">{runs.isLoaded.value ? formatWhole(runs.numFitting.value) : ""}</span>
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
