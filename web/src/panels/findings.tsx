/** What is wrong, the evidence, what to try, and what is healthy. */

import type { JSX } from "preact";

import { formatWallClock, formatWhole } from "../chart/index.ts";
import { evidenceWords } from "../state/findings.ts";
import type { Finding, Severity } from "../state/findings.ts";
import type { Page } from "../state/page.ts";
import type { RunSection, SectionProps } from "./panel.ts";
import { showFinding } from "./parts/finding-list.tsx";
import "./findings.css";

const ICONS: Readonly<Record<Severity, string>> = { error: "✕", warning: "!", info: "i" };

export const section: RunSection = { order: 10, id: "findings", title: "Findings", shortcut: "f", component: Findings, count: numOpen, hasContent: (page) => !!page.findings.all.value?.length };

function Findings({ page }: SectionProps): JSX.Element {
  return (
    <ol class="found-list">
      {page.findings.all.value?.map((finding) => <li key={finding.id}><FindingCard page={page} finding={finding} /></li>)}
    </ol>
  );
}

function FindingCard({ page, finding }: { readonly page: Page; readonly finding: Finding }): JSX.Element {
  const { severity, sentence, advice, steps, evidence, isOpen, series, rule, t, meaning, healthy } = finding;
  const place = steps === null ? null : steps[0] === steps[1] ? `step ${formatWhole(steps[0])}` : `steps ${formatWhole(steps[0])} to ${formatWhole(steps[1])}`;
  return (
    <article class={`found is-${severity}`}>
      <span class="found-icon" role="img" aria-label={severity}>{ICONS[severity]}</span>
      <div class="found-body">
        <p class="found-sentence">{sentence}</p>
        {advice !== null && <p class="found-advice">{advice}</p>}
        <p class="found-note">
          {[rule, series, place, t === null ? null : formatWallClock(t), isOpen ? "open" : "resolved"].map((word) => word !== null && <span key={word}>{word}</span>)}
        </p>
        {Object.keys(evidence).length > 0 && (
          <dl class="evidence">
            {Object.entries(evidence).map(([key, value]) => {
              const [name, text] = evidenceWords(key, value);
              return <div key={key}><dt>{name}</dt><dd>{text}</dd></div>;
            })}
          </dl>
        )}
        {meaning !== null && (
          <details class="found-meaning">
            <summary>What does this mean?</summary>
            <p>{meaning}</p>
            {healthy !== null && <p><b>Healthy:</b> {healthy}</p>}
          </details>
        )}
      </div>
      {steps !== null && <button type="button" class="button" onClick={() => showFinding(page, finding)}>Show in charts</button>}
    </article>
  );
}

/** How many findings are open; none is not worth a number. */
function numOpen(page: Page): number | undefined {
  return page.findings.all.value?.filter(({ isOpen }) => isOpen).length || undefined;
}
