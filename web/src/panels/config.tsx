/** The config of a run, how it was started, and how it differs from others. */

import type { JSX } from "preact";

import { valueText } from "../state/config.ts";
import type { Page } from "../state/page.ts";
import { Empty } from "../ui/empty.tsx";
import { SearchBox } from "../ui/search-box.tsx";
import { Segmented } from "../ui/segmented.tsx";
import type { RunRow } from "../wire.ts";
import { ConfigDiff } from "./config-diff.tsx";
import type { PanelProps, Section as RunSection } from "./panel.ts";
import { FocusedRun, RunPicker } from "./parts/run-picker.tsx";
import { searchOf } from "./parts/search.ts";
import { Started } from "./parts/started.tsx";
import { Section } from "./parts/section.tsx";

type Fields = Readonly<Record<string, unknown>>;

export const section: RunSection = { order: 130, id: "config", title: "Config", shortcut: "n", component: Config, hasContent: () => true };

function Config({ page }: PanelProps): JSX.Element {
  return <FocusedRun page={page}>{(run) => <ConfigOf key={run.id} page={page} run={run} />}</FocusedRun>;
}

function ConfigOf({ page, run }: { readonly page: Page; readonly run: RunRow }): JSX.Element {
  const mode = page.view.text("config", "one");
  const search = searchOf(page, "config-find");
  return (
    <div class="pane">
      <div class="pane-bar">
        <RunPicker page={page} />
        <Segmented label="What to show" value={mode.value} onChange={(value) => (mode.value = value)} choices={[
          { value: "one", label: "This run" }, { value: "diff", label: "Differences" }, { value: "all", label: "Side by side" },
        ]} />
        <SearchBox label="Find a key or value" query={search.query} onChange={search.onChange} />
      </div>
      {mode.value === "one"
        ? <OneConfig page={page} run={run} matches={search.matches} />
        : <ConfigDiff page={page} rows={page.runs.shown.value} isDiffOnly={mode.value === "diff"} matches={search.matches} />}
    </div>
  );
}

function OneConfig({ page, run, matches }: { readonly page: Page; readonly run: RunRow; readonly matches: (text: string) => boolean }): JSX.Element {
  const detail = page.details.of(run.id).value;
  if (detail === null) return <div aria-busy="true" />;
  const copy = (what: unknown): void => {
    navigator.clipboard.writeText(JSON.stringify(what, null, 2)).then(
      () => page.toasts.show("Copied.", "good"),
      () => page.toasts.show("The browser does not let this page copy."),
    );
  };
  const copyButton = (what: unknown): JSX.Element => <button type="button" class="button is-quiet" onClick={() => copy(what)}>Copy</button>;
  const { config: _, ...facts } = detail.facts;
  return (
    <div class="configs">
      <Section title="Configuration" tools={copyButton(detail.config)}>
        {Object.keys(detail.config).length === 0
          ? <Empty title="This run has no configuration" code="epochal.init(config={...})">Pass it to init to search and compare it here.</Empty>
          : <div class="section-body tree"><Tree fields={detail.config} matches={matches} /></div>}
      </Section>
      {Object.keys(detail.summary).length > 0 && (
        <Section title="Summary set by the program" tools={copyButton(detail.summary)}>
          <div class="section-body tree"><Tree fields={detail.summary} matches={matches} /></div>
        </Section>
      )}
      <Section title="How it was started" tools={copyButton(facts)}>
        <div class="section-body">
          <Started facts={facts} />
          <details class="started-all" open={page.view.text("config-find").value !== ""}>
            <summary>Everything that was recorded</summary>
            <div class="tree"><Tree fields={facts} matches={matches} isFolded /></div>
          </details>
        </div>
      </Section>
    </div>
  );
}

/** Nested values fold; a branch stays while anything in it fits the search. */
function Tree({ fields, matches, isFolded = false, path = "" }: { readonly fields: Fields; readonly matches: (text: string) => boolean; readonly isFolded?: boolean; readonly path?: string }): JSX.Element {
  return (
    <ul>
      {Object.entries(fields).map(([key, value]) => {
        const whole = `${path}${key}`;
        if (!matches(`${whole} ${JSON.stringify(value)}`)) return null;
        if (typeof value !== "object" || value === null || Array.isArray(value) || Object.keys(value).length === 0) {
          return <li key={key} class="tree-leaf"><span class="tree-key">{key}</span><span class={`tree-value is-${value === null ? "null" : typeof value}`}>{valueText(value)}</span></li>;
        }
        return (
          <li key={key}>
            <details open={!isFolded}>
              <summary><span class="tree-key">{key}</span> <span class="tree-count">{Object.keys(value).length}</span></summary>
              <Tree fields={value as Fields} matches={matches} isFolded={isFolded} path={`${whole}.`} />
            </details>
          </li>
        );
      })}
    </ul>
  );
}
