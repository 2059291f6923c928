/** What an `experts` record holds: each expert's share of the work of its layer. */

import type { EntryRow } from "../wire.ts";

export interface ExpertLoad {
  readonly step: number;
  readonly layers: readonly string[];
  readonly numExperts: number;
  readonly topK: number | null;
  /** Layer by layer, each expert's share; nan where a layer has fewer experts than another. */
  readonly shares: Float64Array;
}

/** Null for a record that has no step or no layers. */
export function expertLoadOf({ record, step }: Pick<EntryRow, "record" | "step">): ExpertLoad | null {
  const { layers, load, top_k: topK } = record ?? {};
  if (step === null || !Array.isArray(layers) || !Array.isArray(load) || layers.length === 0) return null;
  const rows: readonly unknown[][] = layers.map((_, index) => (Array.isArray(load[index]) ? (load[index] as unknown[]) : []));
  const numExperts = Math.max(...rows.map(({ length }) => length));
  if (numExperts === 0) return null;
  const shares = new Float64Array(rows.length * numExperts).fill(NaN);
  rows.forEach((row, layer) => row.forEach((share, expert) => {
    if (typeof share === "number") shares[layer * numExperts + expert] = share;
  }));
  return { step, layers: layers.map(String), numExperts, topK: typeof topK === "number" ? topK : null, shares };
}

export interface LayerSummary {
  readonly layer: string;
  readonly numExperts: number;
  /** The largest share over the even one: 1 is perfectly balanced. */
  readonly imbalance: number;
  readonly busiest: number;
  /** Experts with less than a tenth of the even share. */
  readonly numIdle: number;
}

const IDLE_SHARE = 0.1;

export function layerSummaries({ layers, numExperts, shares }: ExpertLoad): readonly LayerSummary[] {
  return layers.map((layer, index) => {
    const row = [...shares.subarray(index * numExperts, (index + 1) * numExperts)].filter((share) => !Number.isNaN(share));
    const largest = Math.max(...row, 0);
    return {
      layer,
      numExperts: row.length,
      imbalance: largest * row.length,
      busiest: row.indexOf(largest),
      numIdle: row.filter((share) => share * row.length < IDLE_SHARE).length,
    };
  });
}

/** Shares as multiples of the even one, so that layers of any width compare. */
export function relativeLoad({ numExperts, shares, layers }: ExpertLoad): Float64Array {
  const counts = layers.map((_, layer) => shares.subarray(layer * numExperts, (layer + 1) * numExperts).filter((share) => !Number.isNaN(share)).length);
  return shares.map((share, index) => share * counts[Math.floor(index / numExperts)]!);
}

/** One layer's experts over steps, expert by expert; layers are found by name, since a model may change between attempts. */
export function overSteps(loads: readonly ExpertLoad[], layer: string): { readonly numExperts: number; readonly values: Float64Array } {
  const numExperts = Math.max(0, ...loads.map((load) => load.numExperts));
  const values = new Float64Array(numExperts * loads.length).fill(NaN);
  loads.forEach((load, column) => {
    const row = load.layers.indexOf(layer);
    if (row < 0) return;
    const relative = relativeLoad(load);
    for (let expert = 0; expert < load.numExperts; expert++) values[expert * loads.length + column] = relative[row * load.numExperts + expert]!;
  });
  return { numExperts, values };
}

/** A layer's name in a sentence, where a number alone would be read as one. */
export function layerTitle(layer: string): string {
  return /^\d+$/.test(layer) ? `layer ${layer}` : layer;
}
