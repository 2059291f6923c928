/** Histograms as data: bins with edges that may differ from step to step. */

export interface Distribution {
  /** Null for values of more than one step. */
  readonly step: number | null;
  /** One more than there are bins, ascending. */
  readonly edges: Float64Array;
  readonly counts: Float64Array;
}

/** A distribution of the values at one step. */
export interface StepDistribution extends Distribution {
  readonly step: number;
}

export function total(counts: Float64Array): number {
  let sum = 0;
  for (const count of counts) sum += count;
  return sum;
}

/** Value below which a share `q` of the counts lies, even within a bin; nan of an empty distribution. */
export function distributionQuantile({ edges, counts }: Distribution, q: number): number {
  const wanted = q * total(counts);
  if (!(total(counts) > 0)) return NaN;
  let below = 0;
  for (let bin = 0; bin < counts.length; bin++) {
    const count = counts[bin]!;
    if (count > 0 && below + count >= wanted) {
      const share = Math.max(0, (wanted - below) / count);
      return edges[bin]! + (edges[bin + 1]! - edges[bin]!) * share;
    }
    below += count;
  }
  return edges.at(-1)!;
}

/**
 * Density at each place, which must ascend: counts by bin width, so that bins of unequal width compare, straight between
 * the middles of the bins; 0 outside.
 */
export function densityAt({ edges, counts }: Distribution, places: Float64Array): Float64Array {
  const all = total(counts) || 1;
  const result = new Float64Array(places.length);
  const middle = (bin: number): number => (edges[bin]! + edges[bin + 1]!) / 2;
  const density = (bin: number): number => {
    const width = (edges[bin + 1] ?? NaN) - (edges[bin] ?? NaN);
    return width > 0 ? counts[bin]! / (all * width) : 0;
  };
  let bin = 0;
  for (let index = 0; index < places.length; index++) {
    const place = places[index]!;
    if (counts.length === 0 || place < edges[0]! || place > edges.at(-1)!) continue;
    while (bin < counts.length - 1 && place > middle(bin + 1)) bin++;
    if (place <= middle(bin) || bin === counts.length - 1) result[index] = density(bin);
    else result[index] = density(bin) + ((density(bin + 1) - density(bin)) * (place - middle(bin))) / (middle(bin + 1) - middle(bin));
  }
  return result;
}

/** The edges that all distributions lie within. */
export function distributionExtent(distributions: readonly Distribution[]): { min: number; max: number } {
  let min = Infinity;
  let max = -Infinity;
  for (const { edges } of distributions) {
    if (edges.length === 0) continue;
    min = Math.min(min, edges[0]!);
    max = Math.max(max, edges.at(-1)!);
  }
  if (!(min <= max)) return { min: 0, max: 1 };
  return min < max ? { min, max } : { min: min - 0.5, max: max + 0.5 };
}
