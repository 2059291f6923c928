/** What a `histogram` record holds, as charts take it. */

import type { StepDistribution } from "../chart/index.ts";
import type { EntryRow } from "../wire.ts";

export interface Histogram {
  readonly distribution: StepDistribution;
  readonly count: number | null;
  readonly mean: number | null;
  readonly std: number | null;
  readonly min: number | null;
  readonly max: number | null;
  readonly numNonfinite: number;
}

/** Null for a record that is no histogram with a step and bins. */
export function distributionOf({ record, step }: Pick<EntryRow, "record" | "step">): Histogram | null {
  const { lo, hi, counts, ...facts } = record ?? {};
  if (step === null || typeof lo !== "number" || typeof hi !== "number" || !Array.isArray(counts) || counts.length === 0) return null;
  // All values alike: a bin without width would not be seen.
  const [low, high] = hi > lo ? [lo, hi] : [lo - 0.5, lo + 0.5];
  const edges = Float64Array.from({ length: counts.length + 1 }, (_, index) => low + ((high - low) * index) / counts.length);
  return {
    distribution: { step, edges, counts: Float64Array.from(counts, (count) => (typeof count === "number" ? count : 0)) },
    count: number(facts["count"]),
    mean: number(facts["mean"]),
    std: number(facts["std"]),
    min: number(facts["min"]),
    max: number(facts["max"]),
    numNonfinite: number(facts["nonfinite_count"]) ?? 0,
  };
}

function number(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
