/** The config: first what differs from the run before, then all of it, and how the run was started. */

import type { JSX } from "preact";

import { configText, flatConfig, valueText } from "../state/config.ts";
import type { Page } from "../state/page.ts";
import { SearchBox } from "../ui/search-box.tsx";
import type { RunRow } from "../wire.ts";
import type { RunSection, SectionProps } from "./panel.ts";
import { searchOf } from "./parts/search.ts";
import { Section } from "./parts/section.tsx";
import { Started } from "./parts/started.tsx";
import "./config.css";

const MOST_IN_CARD = 8;

type Fields = Readonly<Record<string, unknown>>;

export const section: RunSection = {
  order: 40,
  id: "config",
  title: "Config",
  shortcut: "n",
  component: Config,
  hasContent: (_, { facts, config }) => Object.keys(facts).length + Object.keys(config).length > 0,
};

function Config({
  page,
  run,
  detail: { config, summary, facts: recorded },
}: SectionProps): JSX.Element {
  const search = searchOf(page, "config-find");
  const previous = previousRun(page, run);
  const { config: _, ...facts } = recorded;
  const numValues = flatConfig(config).length;
  const isFinding = search.query !== "";
  const copy = (what: unknown): void => {
    navigator.clipboard.writeText(JSON.stringify(what, null, 2)).then(
      () => page.toasts.show("Copied.", "good"),
      () => page.toasts.show("The browser does not let this page copy."),
    );
  };
  const copyButton = (what: unknown): JSX.Element => (
    <button type="button" class="button is-quiet" onClick={() => copy(what)}>
      Copy
    </button>
  );
  return (
    <div class="pane">
      <div class="pane-bar">
        <SearchBox label="Find a key or value" query={search.query} onChange={search.onChange} />
      </div>
      <div class="configs">
        {numValues > 0 && (
          <Section title="Configuration" tools={copyButton(config)}>
            <div class="section-body">
              {previous !== null && <Differences page={page} run={run} previous={previous} />}
              <details class="started-all" open={previous === null || isFinding}>
                <summary>
                  {numValues === 1 ? "The whole configuration" : `All ${numValues} values`}
                </summary>
                <div class="tree">
                  <Tree fields={config} matches={search.matches} />
                </div>
              </details>
            </div>
          </Section>
        )}
        {Object.keys(summary).length > 0 && (
          <Section title="Summary set by the program" tools={copyButton(summary)}>
            <div class="section-body tree">
              <Tree fields={summary} matches={search.matches} />
            </div>
          </Section>
        )}
        <Section title="How it was started" tools={copyButton(facts)}>
          <div class="section-body">
            <Started facts={facts} />
            <details class="started-all" open={isFinding}>
              <summary>Everything that was recorded</summary>
              <div class="tree">
                <Tree fields={facts} matches={search.matches} isFolded />
              </div>
            </details>
          </div>
        </Section>
      </div>
    </div>
  );
}

/** The config in short: what differs from the run before, then the other values. */
export function ConfigCard({ page, run, detail: { config } }: SectionProps): JSX.Element | null {
  const previous = previousRun(page, run);
  const all = flatConfig(config);
  const differs = (key: string): boolean =>
    previous !== null && configText(config, key) !== configText(previous.config, key);
  if (all.length === 0) return null;
  return (
    <section class="card" aria-label="Config in short">
      <header class="card-head">
        <h3>Config</h3>
        <span class="card-space" />
        <button type="button" class="button is-quiet" onClick={() => page.open("run", "config")}>
          {all.length > MOST_IN_CARD ? `all ${all.length}` : "details"}
        </button>
      </header>
      <dl class="facts config-short">
        {all
          .toSorted(([one], [other]) => Number(differs(other)) - Number(differs(one)))
          .slice(0, MOST_IN_CARD)
          .map(([key, value]) => (
            <div
              key={key}
              class={differs(key) ? "is-other" : ""}
              title={differs(key) ? `The run before had ${configText(previous!.config, key)}.` : ""}
            >
              <dt>{key}</dt>
              <dd>{valueText(value)}</dd>
            </div>
          ))}
      </dl>
    </section>
  );
}

/** The run of the same project that was started before this one, as far as runs are listed. */
function previousRun(page: Page, { id, project, created }: RunRow): RunRow | null {
  const before = page.runs.all.value.filter(
    (row) => row.id !== id && row.project === project && (row.created ?? Infinity) < (created ?? 0),
  );
  return before.reduce<RunRow | null>(
    (one, other) => (one === null || other.created! > one.created! ? other : one),
    null,
  );
}

function Differences({
  page,
  run,
  previous,
}: {
  readonly page: Page;
  readonly run: RunRow;
  readonly previous: RunRow;
}): JSX.Element {
  const keys = new Set(
    [run, previous].flatMap(({ config }) => flatConfig(config).map(([key]) => key)),
  );
  const rows = [...keys]
    .map((key) => [key, configText(run.config, key), configText(previous.config, key)] as const)
    .filter(([, own, other]) => own !== other);
  const link = (
    <button type="button" class="link" onClick={() => (page.view.focus.value = previous.id)}>
      {page.runs.label(previous.id)}
    </button>
  );
  if (rows.length === 0) return <p>The same config as the run before, {link}.</p>;
  return (
    <table class="config-diff">
      <thead>
        <tr>
          <th scope="col">Differs</th>
          <th scope="col">This run</th>
          <th scope="col">{link}, the run before</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([key, own, other]) => (
          <tr key={key}>
            <th scope="row">{key}</th>
            <td>{own}</td>
            <td>{other}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Nested values fold; a branch stays while anything in it matches the search. */
function Tree({
  fields,
  matches,
  isFolded = false,
  path = "",
}: {
  readonly fields: Fields;
  readonly matches: (text: string) => boolean;
  readonly isFolded?: boolean;
  readonly path?: string;
}): JSX.Element {
  return (
    <ul>
      {Object.entries(fields).map(([key, value]) => {
        const whole = `${path}${key}`;
        if (!matches(`${whole} ${JSON.stringify(value)}`)) return null;
        if (
          typeof value !== "object" ||
          value === null ||
          Array.isArray(value) ||
          Object.keys(value).length === 0
        ) {
          return (
            <li key={key} class="tree-leaf">
              <span class="tree-key">{key}</span>
              <span class={`tree-value is-${value === null ? "null" : typeof value}`}>
                {valueText(value)}
              </span>
            </li>
          );
        }
        return (
          <li key={key}>
            <details open={!isFolded}>
              <summary>
                <span class="tree-key">{key}</span>{" "}
                <span class="tree-count">{Object.keys(value).length}</span>
              </summary>
              <Tree
                fields={value as Fields}
                matches={matches}
                isFolded={isFolded}
                path={`${whole}.`}
              />
            </details>
          </li>
        );
      })}
    </ul>
  );
}
