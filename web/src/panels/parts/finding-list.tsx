/** Findings with their evidence; a click shows where they were found. */

import type { JSX } from "preact";

import { formatWhole } from "../../chart/index.ts";
import { evidenceWords } from "../../state/findings.ts";
import type { Finding } from "../../state/findings.ts";
import type { Page } from "../../state/page.ts";
import type { PlaceId } from "../../state/view.ts";

export interface FindingListProps {
  readonly page: Page;
  readonly findings: readonly Finding[];
  /** Called with the finding that was clicked; without it the charts open there. */
  readonly onChoose?: (finding: Finding) => void;
}

const GLYPHS: Readonly<Record<Finding["severity"], string>> = { error: "●", warning: "▲", info: "○" };

export function FindingList({ page, findings, onChoose }: FindingListProps): JSX.Element {
  return (
    <ul class="findings">
      {findings.map((finding) => (
        <li key={finding.id}>
          <button type="button" class={`finding is-${finding.severity}${finding.isOpen ? "" : " is-closed"}`}
            onClick={() => (onChoose ?? ((one) => showFinding(page, one)))(finding)}>
            <span class="finding-glyph" role="img" aria-label={finding.severity}>{GLYPHS[finding.severity]}</span>
            <span class="finding-body">
              <span class="finding-sentence">{finding.sentence}</span>
              {finding.advice !== null && <span class="finding-advice">{finding.advice}</span>}
              <span class="finding-evidence">{evidenceText(finding)}</span>
            </span>
          </button>
        </li>
      ))}
    </ul>
  );
}

function evidenceText({ steps, evidence, isOpen }: Finding): string {
  const parts: string[] = [];
  if (steps !== null) parts.push(steps[0] === steps[1] ? `step ${formatWhole(steps[0])}` : `steps ${formatWhole(steps[0])}–${formatWhole(steps[1])}`);
  for (const [name, value] of Object.entries(evidence)) {
    const [what, text] = evidenceWords(name, value);
    parts.push(`${what.replace(/_/g, " ")} ${text}`);
  }
  if (!isOpen) parts.push("resolved");
  return parts.join(" · ");
}

/** Zoom to what a finding is about, in the charts or in another place. */
export function showFinding(page: Page, finding: Finding, place: PlaceId = "board"): void {
  const { view } = page;
  const metric = page.metrics.value.find(({ name }) => name === finding.series);
  if (finding.run !== view.focus.value && !page.runs.shownIds.value.has(finding.run)) view.focus.value = finding.run;
  if (place === "board" && metric !== undefined) view.full.value = metric.name;
  if (metric?.axis === "time" && finding.t !== null) {
    page.zoomTo({ x: "wall", min: finding.t - 180, max: finding.t + 60 }, place);
  } else if (finding.steps !== null) {
    const [from, to] = finding.steps;
    const margin = Math.max(20, (to - from) * 0.5);
    page.zoomTo({ x: "step", min: Math.max(0, from - margin), max: to + margin }, place);
  } else {
    page.open(place);
  }
}
