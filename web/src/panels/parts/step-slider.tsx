/** A place among the steps at which something was recorded; always the newest until somebody moves it. */

import type { JSX } from "preact";

import { formatWhole } from "../../chart/index.ts";
import { nearestIndex } from "../../chart/series.ts";

export interface StepSliderProps {
  /** Ascending. */
  readonly steps: readonly number[];
  /** Null for the newest. */
  readonly step: number | null;
  readonly onChange: (step: number | null) => void;
}

export function StepSlider({ steps, step, onChange }: StepSliderProps): JSX.Element | null {
  if (steps.length === 0) return null;
  const last = steps.length - 1;
  const at = step === null ? last : nearestIndex(steps, step);
  const go = (index: number): void => {
    const bounded = Math.max(0, Math.min(last, index));
    onChange(bounded === last ? null : steps[bounded]!);
  };
  return (
    <div class="step-slider" role="group" aria-label="Step">
      <button type="button" class="button is-quiet" aria-label="Earlier step" disabled={at === 0} onClick={() => go(at - 1)}>‹</button>
      <input type="range" min={0} max={last} step={1} value={at} aria-label="Step" aria-valuetext={`step ${steps[at]!}`}
        style={{ "--share": `${last > 0 ? (at / last) * 100 : 100}%` }} onInput={(event) => go(event.currentTarget.valueAsNumber)} />
      <button type="button" class="button is-quiet" aria-label="Later step" disabled={at === last} onClick={() => go(at + 1)}>›</button>
      <output>step {formatWhole(steps[at]!)}{step === null ? " · newest" : ""}</output>
    </div>
  );
}

/** The step written in the address; null for the newest. */
export function parseStep(text: string): number | null {
  return text === "" || !Number.isFinite(Number(text)) ? null : Number(text);
}

/** The last of the steps that is not after `step`; the first where all are. */
export function stepAtOrBefore(steps: readonly number[], step: number | null): number | undefined {
  if (step === null) return steps.at(-1);
  return steps.findLast((one) => one <= step) ?? steps[0];
}

/** Steps of some records, ascending, each once. */
export function stepsOf(entries: Iterable<{ readonly step: number | null }>): number[] {
  const steps = new Set<number>();
  for (const { step } of entries) if (step !== null) steps.add(step);
  return [...steps].sort((one, other) => one - other);
}
