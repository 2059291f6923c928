/** The series of many ranks as a matrix: ranks by steps, several ranks in a row where there are more than can be seen. */

import type { SeriesPart } from "../../source/source.ts";

export interface RankMatrix {
  readonly rowNames: readonly string[];
  /** How many ranks a row has at most. */
  readonly perRow: number;
  /** Middle of each column. */
  readonly x: Float64Array;
  /** Row by row; nan where nothing finite was logged, -infinity where nothing was. */
  readonly values: Float64Array;
  /** Which rank each value is of. */
  readonly ranks: Int32Array;
  /** Without the outermost hundredth on both sides: one slow step must not flatten the rest. */
  readonly range: { readonly min: number; readonly max: number };
  /**
   * How many spreads each value lies from the median of all ranks in its column; null where the values themselves show it. A loss that falls by far more
   * than ranks differ would hide a rank that is off.
   */
  readonly deviations: Float64Array | null;
}

/** Deviations have the full colour from here on; of ten equal ranks in a row the farthest is mostly within two spreads. */
export const MOST_SPREADS = 6;

const ABSENT = -Infinity;
const LONGEST_GAP = 3;
/** With fewer ranks their spread is not known. */
const LEAST_RANKS = 5;
/** How many spreads the middle of all ranks may wander before it hides them. */
const HIDING = 4;
/** The standard deviation of normal values by their median absolute deviation. */
const PER_MAD = 1.4826;

export function rankMatrix(
  parts: readonly SeriesPart[],
  maxRows: number,
  maxColumns: number,
): RankMatrix | null {
  const byRank = [...parts].sort((one, other) => one.head.rank - other.head.rank);
  const samples = byRank.map(samplesOf);
  let [lo, hi, longest] = [Infinity, -Infinity, 0];
  for (const { x } of samples) {
    if (x.length > 0) [lo, hi] = [Math.min(lo, x[0]!), Math.max(hi, x.at(-1)!)];
    longest = Math.max(longest, x.length);
  }
  if (!(lo <= hi)) return null;
  const columns = Math.max(1, Math.min(maxColumns, longest));
  // The first and the last column have the first and the last point in their middle: as many columns as steps are the steps.
  const width = columns > 1 ? (hi - lo) / (columns - 1) || 1 : 1;
  const cells = samples.map((sample) => columnMeans(sample, lo - width / 2, width, columns));
  const x = Float64Array.from({ length: columns }, (_, column) => lo + column * width);
  const medians = x.map((_, column) =>
    median(cells.map((cell) => cell[column]!).filter(Number.isFinite)),
  );
  const perRow = Math.max(1, Math.ceil(cells.length / Math.max(1, maxRows)));
  const numRows = Math.ceil(cells.length / perRow);
  const values = new Float64Array(numRows * columns).fill(ABSENT);
  const ranks = new Int32Array(numRows * columns);
  const strangest = new Float64Array(numRows * columns).fill(-Infinity);
  cells.forEach((cell, index) => {
    const row = Math.floor(index / perRow);
    const stop = stopOf(cell);
    cell.forEach((value, column) => {
      const at = row * columns + column;
      const strangeness = strangenessOf(value, medians[column]!, column >= stop);
      if (strangeness > strangest[at]!)
        [strangest[at], values[at], ranks[at]] = [strangeness, value, byRank[index]!.head.rank];
    });
  });
  const rowNames = Array.from({ length: numRows }, (_, row) => {
    const [first, last] = [
      byRank[row * perRow]!.head.rank,
      byRank[Math.min(cells.length, (row + 1) * perRow) - 1]!.head.rank,
    ];
    return first === last ? `rank ${first}` : `${first}–${last}`;
  });
  const spreads = spreadsOf(cells, medians);
  const wandering = innerRange(medians);
  const isHidden =
    cells.length >= LEAST_RANKS && wandering.max - wandering.min > HIDING * median([...spreads]);
  const deviations = isHidden
    ? values.map((value, at) =>
        Number.isFinite(value)
          ? inSpreads(value - medians[at % columns]!, spreads[at % columns]!)
          : value,
      )
    : null;
  return { rowNames, perRow, x, values, ranks, range: innerRange(values), deviations };
}

/** How far ranks usually lie from their median, by column; one that is far off does not count. */
function spreadsOf(cells: readonly Float64Array[], medians: Float64Array): Float64Array {
  const found = medians.map(
    (middle, column) =>
      PER_MAD *
      median(cells.map((cell) => Math.abs(cell[column]! - middle)).filter(Number.isFinite)),
  );
  const usual = median([...found].filter((spread) => spread > 0));
  return found.map((spread) => spread || usual);
}

function inSpreads(distance: number, spread: number): number {
  return distance === 0
    ? 0
    : spread === 0
      ? Math.sign(distance) * Number.MAX_VALUE
      : distance / spread;
}

/** Of several ranks in one row the strangest is shown: one without a number, then one that stopped, then the one farthest from the others. */
function strangenessOf(value: number, middle: number, hasStopped: boolean): number {
  if (Number.isNaN(value)) return Infinity;
  if (value === ABSENT) return hasStopped ? Number.MAX_VALUE : -1;
  return Math.abs(value - middle);
}

/** The column from which on a rank has nothing although others go on; one that is a little behind has not stopped. */
function stopOf(cell: Float64Array): number {
  const stop = cell.findLastIndex((value) => value !== ABSENT) + 1;
  return stop + LONGEST_GAP < cell.length ? stop : Infinity;
}

interface Samples {
  readonly x: Float64Array;
  readonly y: Float64Array;
  readonly weight: Float64Array | null;
}

function samplesOf({ data }: SeriesPart): Samples {
  if (data.kind === "raw") return { x: data.x, y: data.y, weight: null };
  return { x: data.lastX, y: data.mean, weight: data.count };
}

function columnMeans(
  { x, y, weight }: Samples,
  lo: number,
  width: number,
  columns: number,
): Float64Array {
  const sums = new Float64Array(columns);
  const weights = new Float64Array(columns);
  const seen = new Uint8Array(columns);
  for (let index = 0; index < x.length; index++) {
    const column = Math.min(columns - 1, Math.max(0, Math.floor((x[index]! - lo) / width)));
    seen[column] = 1;
    const value = y[index]!;
    // Slices that came after the answer have no mean yet.
    if (value === undefined || !Number.isFinite(value)) continue;
    const share = weight?.[index] ?? 1;
    sums[column]! += value * share;
    weights[column]! += share;
  }
  const means = sums.map((sum, column) =>
    weights[column]! > 0 ? sum / weights[column]! : seen[column] === 1 ? NaN : ABSENT,
  );
  return withoutGaps(means);
}

/** Points that are a little farther apart than columns leave no holes: a value lasts over the next few columns. */
function withoutGaps(means: Float64Array): Float64Array {
  let before = -1;
  for (let column = 0; column < means.length; column++) {
    if (means[column] === ABSENT) continue;
    if (before >= 0 && column - before <= LONGEST_GAP)
      means.fill(means[before]!, before + 1, column);
    before = column;
  }
  return means;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[sorted.length >> 1] ?? 0;
}

function innerRange(values: Float64Array): { readonly min: number; readonly max: number } {
  const known = values.filter(Number.isFinite).sort();
  if (known.length === 0) return { min: 0, max: 1 };
  return {
    min: known[Math.floor(known.length * 0.01)]!,
    max: known[Math.min(known.length - 1, Math.ceil(known.length * 0.99))]!,
  };
}
