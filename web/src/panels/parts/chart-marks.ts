/** Marks of findings and events on the charts of metrics, and the phases under a loss. */

import { useMemo } from "preact/hooks";

import type { Mark, Stretch } from "../../chart/index.ts";
import type { Finding } from "../../state/findings.ts";
import type { Page } from "../../state/page.ts";
import { phaseStretches } from "./phases.ts";

/** Kinds of marks that charts have unless somebody turns them off. */
export const CHART_MARKS = ["finding", "restart", "epoch", "checkpoint"] as const;
export type ChartMark = (typeof CHART_MARKS)[number];

export function hiddenMarks({ view }: Page): readonly string[] {
  return view
    .text("no-marks")
    .value.split(" ")
    .filter((word) => word !== "");
}

/** Findings about the metrics, and what happened in the run in focus; the same list until one of them changes. */
export function useMarks(page: Page, names: readonly string[], x: string): readonly Mark[] {
  const findings = page.findings.all.value;
  const placed = page.marks.onAxis(x);
  const hidden = hiddenMarks(page).join(" ");
  const focus = page.runs.focus.value;
  const whose =
    focus === null || page.runs.drawn.value.length < 2 ? "" : `${page.runs.label(focus.id)}: `;
  return useMemo(() => {
    // Along epochs every place of the axis is one.
    const isShown = (kind: string): boolean =>
      !hidden.split(" ").includes(kind) && !(kind === "epoch" && x === "epoch");
    const happened = placed.flatMap(({ kind, label, x: at }): Mark[] =>
      kind !== "phase" && kind !== "throttle" && isShown(kind)
        ? [{ x: at, kind, label: whose + label }]
        : [],
    );
    return [
      ...happened,
      ...(isShown("finding") && x === "step" ? findingMarks(findings ?? [], names) : []),
    ];
  }, [findings, placed, hidden, names.join("\n"), x, whose]);
}

function findingMarks(findings: readonly Finding[], names: readonly string[]): readonly Mark[] {
  return findings.flatMap(({ series, steps, sentence, severity }): Mark[] =>
    series === null || !names.includes(series) || steps === null
      ? []
      : [{ x: steps[0], kind: "finding", label: sentence, severity: markSeverity(severity) }],
  );
}

const NO_STRETCHES: readonly Stretch[] = [];

/** The phases of the run in focus, under its loss, until the run's last point. */
export function usePhases(
  page: Page,
  names: readonly string[],
  x: string,
  end: number,
): readonly Stretch[] {
  const focus = page.runs.focus.value;
  const loss = focus === null ? undefined : page.details.of(focus.id).value?.roles.loss;
  const placed = page.marks.onAxis(x);
  const isLoss = loss !== undefined && names.includes(loss);
  return useMemo(
    () => (isLoss ? phaseStretches(placed, end) : NO_STRETCHES),
    [isLoss, placed, end],
  );
}

export function markSeverity(severity: Finding["severity"]): "info" | "warning" | "critical" {
  return severity === "error" ? "critical" : severity;
}
