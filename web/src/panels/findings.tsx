/** What is wrong, the evidence, what to try, and healthy values. */

import type { JSX } from "preact";

import { formatWallClock, formatWhole } from "../chart/index.ts";
import { evidenceWords } from "../state/findings.ts";
import type { Finding, Severity } from "../state/findings.ts";
import type { Page } from "../state/page.ts";
import { Empty } from "../ui/empty.tsx";
import { Segmented } from "../ui/segmented.tsx";
import type { RunRow } from "../wire.ts";
import type { PanelProps, Section as RunSection } from "./panel.ts";
import { Alerts } from "./parts/alerts.tsx";
import { showFinding } from "./parts/finding-list.tsx";
import { InternalErrors } from "./parts/internal-errors.tsx";
import { RULES } from "./parts/rules.ts";
import { Ranges } from "./parts/ranges.tsx";
import { FocusedRun, RunPicker } from "./parts/run-picker.tsx";
import "./findings.css";

const ICONS: Readonly<Record<Severity, string>> = { error: "✕", warning: "!", info: "i" };

export const section: RunSection = { order: 110, id: "findings", title: "Findings", shortcut: "f", component: Findings, count: numOpen, hasContent: () => true };

function Findings({ page }: PanelProps): JSX.Element {
  return <FocusedRun page={page}>{(run) => <FindingsOf page={page} run={run} />}</FocusedRun>;
}

function FindingsOf({ page, run }: { readonly page: Page; readonly run: RunRow }): JSX.Element {
  const all = page.findings.all.value;
  const severity = page.view.text("finding", "all");
  const shown = (all ?? []).filter((finding) => severity.value === "all" || finding.severity === severity.value);
  const count = (one: Severity): number => (all ?? []).filter((finding) => finding.severity === one).length;
  return (
    <div class="pane">
      <div class="pane-bar">
        <RunPicker page={page} />
        <Segmented label="Severity" value={severity.value} onChange={(value) => (severity.value = value)} choices={[
          { value: "all", label: `All ${all?.length ?? ""}` }, { value: "error", label: `Errors ${count("error")}` },
          { value: "warning", label: `Warnings ${count("warning")}` }, { value: "info", label: `Notes ${count("info")}` },
        ]} />
      </div>
      {all !== null && all.length === 0 && <Empty title="No findings">No rule reported a problem in this run.</Empty>}
      {all !== null && all.length > 0 && shown.length === 0 && <Empty title="None of this severity" />}
      <ol class="found-list">
        {shown.map((finding) => <li key={finding.id}><FindingCard page={page} finding={finding} /></li>)}
      </ol>
      <Alerts page={page} run={run} />
      <InternalErrors page={page} />
      <Ranges page={page} run={run} />
    </div>
  );
}

function FindingCard({ page, finding }: { readonly page: Page; readonly finding: Finding }): JSX.Element {
  const { severity, sentence, advice, steps, evidence, isOpen, series, rule, t } = finding;
  const place = steps === null ? null : steps[0] === steps[1] ? `step ${formatWhole(steps[0])}` : `steps ${formatWhole(steps[0])} to ${formatWhole(steps[1])}`;
  return (
    <article class={`found is-${severity}`}>
      <span class="found-icon" role="img" aria-label={severity}>{ICONS[severity]}</span>
      <div class="found-body">
        <p class="found-sentence">{sentence}</p>
        {advice !== null && <p class="found-advice">{advice}</p>}
        <p class="found-note">
          <span>{rule}</span>
          {series !== null && <span>{series}</span>}
          {place !== null && <span>{place}</span>}
          {t !== null && <span>{formatWallClock(t)}</span>}
          <span>{isOpen ? "open" : "resolved"}</span>
        </p>
        {Object.keys(evidence).length > 0 && (
          <dl class="evidence">
            {Object.entries(evidence).map(([key, value]) => {
              const [name, text] = evidenceWords(key, value);
              return <div key={key}><dt>{name}</dt><dd>{text}</dd></div>;
            })}
          </dl>
        )}
        <MeaningOf rule={rule} />
      </div>
      {steps !== null && (
        <button type="button" class="button" onClick={() => showFinding(page, finding)}>Show in charts</button>
      )}
    </article>
  );
}

function MeaningOf({ rule }: { readonly rule: string }): JSX.Element | null {
  const text = Object.hasOwn(RULES, rule) ? RULES[rule] : undefined;
  if (text === undefined) return null;
  return (
    <details class="found-meaning">
      <summary>What does this mean?</summary>
      <p>{text.meaning}</p>
      <p><b>Healthy:</b> {text.healthy}</p>
    </details>
  );
}

/** How many findings still hold; none is not worth a number. */
function numOpen(page: Page): number | undefined {
  return page.findings.all.value?.filter(({ isOpen }) => isOpen).length || undefined;
}
