/** What is wrong, the evidence, what to try, and what is healthy. */

import type { JSX } from "preact";

import { formatWallClock, formatWhole } from "../chart/index.ts";
import { evidenceWords } from "../state/findings.ts";
import type { Finding, Severity } from "../state/findings.ts";
import type { Page } from "../state/page.ts";
import type { RunSection, SectionProps } from "./panel.ts";
import "./findings.css";

const MOST_IN_CARD = 5;
const GLYPHS: Readonly<Record<Severity, string>> = { error: "●", warning: "▲", info: "○" };
const ICONS: Readonly<Record<Severity, string>> = { error: "✕", warning: "!", info: "i" };

export const section: RunSection = {
  order: 10,
  id: "findings",
  title: "Findings",
  shortcut: "f",
  component: Findings,
  count: numOpen,
  hasContent: (page, { recorded }) =>
    (page.findings.all.value?.length ?? Number(recorded.includes("finding"))) > 0,
};

function Findings({ page }: SectionProps): JSX.Element {
  return (
    <ol class="found-list">
      {page.findings.all.value?.map((finding) => (
        <li key={finding.id}>
          <FindingCard page={page} finding={finding} />
        </li>
      ))}
    </ol>
  );
}

function FindingCard({
  page,
  finding,
}: {
  readonly page: Page;
  readonly finding: Finding;
}): JSX.Element {
  const { severity, sentence, advice, steps, evidence, isOpen, series, rule, t, meaning, healthy } =
    finding;
  return (
    <article class={`found is-${severity}`}>
      <span class="found-icon" role="img" aria-label={severity}>
        {ICONS[severity]}
      </span>
      <div class="found-body">
        <p class="found-sentence">{sentence}</p>
        {advice !== null && <p class="found-advice">{advice}</p>}
        <p class="found-note">
          {[
            rule,
            series,
            placeOf(finding),
            t === null ? null : formatWallClock(t),
            isOpen ? "open" : "resolved",
          ].map((word) => word !== null && <span key={word}>{word}</span>)}
        </p>
        {Object.keys(evidence).length > 0 && (
          <dl class="evidence">
            {Object.entries(evidence).map(([key, value]) => {
              const [name, text] = evidenceWords(key, value);
              return (
                <div key={key}>
                  <dt>{name}</dt>
                  <dd>{text}</dd>
                </div>
              );
            })}
          </dl>
        )}
        {meaning !== null && (
          <details class="found-meaning">
            <summary>What does this mean?</summary>
            <p>{meaning}</p>
            {healthy !== null && (
              <p>
                <b>Healthy:</b> {healthy}
              </p>
            )}
          </details>
        )}
      </div>
      {steps !== null && (
        <button type="button" class="button" onClick={() => showFinding(page, finding, true)}>
          Show in charts
        </button>
      )}
    </article>
  );
}

/** How many findings are open; none is not worth a number. */
function numOpen(page: Page): number | undefined {
  return page.findings.all.value?.filter(({ isOpen }) => isOpen).length || undefined;
}

/** The gravest findings in short; a click zooms the charts to where they were found. */
export function FindingsCard({ page }: { readonly page: Page }): JSX.Element {
  const all = page.findings.all.value;
  const shown = (all ?? []).slice(0, MOST_IN_CARD);
  const hasErrors = shown.some(({ severity, isOpen }) => isOpen && severity === "error");
  return (
    <section class={`card${hasErrors ? " has-errors" : ""}`} aria-label="Findings">
      <header class="card-head">
        <h3>Findings</h3>
        <span class="card-space" />
        {shown.length > 0 && (
          <button
            type="button"
            class="button is-quiet"
            onClick={() => page.open("run", "findings")}
          >
            {all!.length > shown.length ? `all ${all!.length}` : "details"}
          </button>
        )}
      </header>
      {shown.length === 0 && (
        <p class="card-empty">
          {all === null ? "Applying the rules …" : "No rule reported a problem."}
        </p>
      )}
      <ul class="findings">
        {shown.map((finding) => (
          <li key={finding.id}>
            <button
              type="button"
              class={`finding is-${finding.severity}${finding.isOpen ? "" : " is-closed"}`}
              onClick={() => showFinding(page, finding, false)}
            >
              <span class="finding-glyph" role="img" aria-label={finding.severity}>
                {GLYPHS[finding.severity]}
              </span>
              <span class="finding-body">
                <span class="finding-sentence">{finding.sentence}</span>
                {finding.advice !== null && finding.isOpen && (
                  <span class="finding-advice" title={finding.advice}>
                    {finding.advice}
                  </span>
                )}
                <span class="finding-evidence">
                  {[placeOf(finding), finding.isOpen ? null : "resolved"]
                    .filter((word) => word !== null)
                    .join(" · ")}
                </span>
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function placeOf({ steps }: Finding): string | null {
  if (steps === null) return null;
  return steps[0] === steps[1]
    ? `step ${formatWhole(steps[0])}`
    : `steps ${formatWhole(steps[0])} to ${formatWhole(steps[1])}`;
}

/** Zoom the charts of the run to what a finding is about, or show its metric alone. */
function showFinding(page: Page, finding: Finding, isAlone: boolean): void {
  const metric = page.metrics.value.find(({ name }) => name === finding.series);
  if (!isAlone) page.open("run");
  else if (metric !== undefined) page.view.full.value = metric.name;
  if (metric?.axis === "time" && finding.t !== null) {
    page.zoomTo({ x: "wall", min: finding.t - 180, max: finding.t + 60 }, "run");
  } else if (finding.steps !== null) {
    const [from, to] = finding.steps;
    const margin = Math.max(20, (to - from) * 0.5);
    page.zoomTo({ x: "step", min: Math.max(0, from - margin), max: to + margin }, "run");
  }
}
