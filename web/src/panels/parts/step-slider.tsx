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
  const go = (by: number): void => onChange(stepBy(steps, step, by));
  return (
    <div class="step-slider" role="group" aria-label="Step">
      <button
        type="button"
        class="button is-quiet"
        aria-label="Earlier step"
        disabled={at === 0}
        onClick={() => go(-1)}
      >
        ‹
      </button>
      <input
        type="range"
        min={0}
        max={last}
        step={1}
        value={at}
        aria-label="Step"
        aria-valuetext={`step ${steps[at]!}`}
        style={{ "--share": `${last > 0 ? (at / last) * 100 : 100}%` }}
        onInput={(event) => go(event.currentTarget.valueAsNumber - at)}
      />
      <button
        type="button"
        class="button is-quiet"
        aria-label="Later step"
        disabled={at === last}
        onClick={() => go(1)}
      >
        ›
      </button>
      <output>
        step {formatWhole(steps[at]!)}
        {step === null ? " · newest" : ""}
      </output>
    </div>
  );
}

/** The step written in the address; null for the newest. */
export function parseStep(text: string): number | null {
  return text === "" || !Number.isFinite(Number(text)) ? null : Number(text);
}

/** The step so many places later among all; null for the newest. */
export function stepBy(steps: readonly number[], step: number | null, by: number): number | null {
  const at = (step === null ? steps.length - 1 : nearestIndex(steps, step)) + by;
  return at >= steps.length - 1 ? null : (steps[Math.max(0, at)] ?? null);
}
