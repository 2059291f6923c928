/** The filter of the run list: words, or a query with completed field names. */

import type { JSX } from "preact";
import { useId } from "preact/hooks";

import { formatWhole } from "../chart/index.ts";
import type { Page } from "../state/page.ts";
import { fieldOf } from "../state/run-pages.ts";
import { completed, completionsOf } from "../ui/completion.ts";
import { isQuery } from "../ui/filter.ts";

const FIELDS = [
  "name",
  "id",
  "project",
  "status",
  "tags",
  "notes",
  "group",
  "job_type",
  "owner",
  "parent",
  "hidden",
  "created",
  "updated",
  "attempts",
  "step",
  "epoch",
  "total_steps",
  "records",
  "damaged",
  "errors",
  "warnings",
  "open_errors",
  "open_warnings",
  "nonfinite",
];
const HELP =
  'Words or "phrases in quotes" that all must occur, with * for any characters; or a query, such as: config.lr < 3e-4 and status == "running", or: name ~ "^run-\\d+$"';
const MOST = 12;

export function RunFilter({ page }: { readonly page: Page }): JSX.Element {
  const { view, runs, source } = page;
  const id = useId();
  const text = view.filter.value;
  const isQueried = isQuery(text);
  const [sentence, ...shown] = runs.filterProblem.value?.split("\n") ?? [];
  return (
    <div class="runs-filter" id="run-filter">
      <div class={`search${sentence === undefined ? "" : " is-wrong"}`}>
        <input
          type="search"
          class={isQueried ? "runs-query-text" : ""}
          aria-label="Filter runs"
          placeholder={source.supportsQueries ? "Filter: words or config.lr < 3e-4" : "Filter runs"}
          value={text}
          title={text === "" ? HELP : text}
          spellcheck={false}
          autocomplete="off"
          list={id}
          aria-invalid={sentence !== undefined}
          onInput={(event) => (view.filter.value = event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Escape" || text === "") return;
            event.stopPropagation();
            view.filter.value = "";
          }}
        />
        <datalist id={id}>
          {isQueried &&
            source.supportsQueries &&
            completionsOf(text, text.length, fieldsOf(page))
              .slice(0, MOST)
              .map((field) => (
                <option key={field} value={completed(text, text.length, field).text} />
              ))}
        </datalist>
        <span class="search-count">
          {runs.isLoaded.value ? formatWhole(runs.numFitting.value) : ""}
        </span>
        {sentence !== undefined && (
          <div class="search-error" role="status">
            {sentence}
            {shown.length > 0 && <pre>{shown.map((line) => line.slice(4)).join("\n")}</pre>}
          </div>
        )}
      </div>
    </div>
  );
}

function fieldsOf({ runs, metrics, setNames }: Page): readonly string[] {
  const names = [...new Set([...metrics.value.map(({ name }) => name), ...setNames.value])];
  return [
    ...FIELDS,
    ...runs.configKeys.value.map((key) => fieldOf("config", key)),
    ...names.flatMap((name) => [
      fieldOf("summary", name, "last"),
      fieldOf("summary", name, "min"),
      fieldOf("best", name),
    ]),
  ];
}
