/** How far a run is, how long it has taken, and how long it will take. */

import type { RunRow } from "../wire.ts";
import { isEnded } from "./runs.ts";

export interface Progress {
  /** From 0 to 1; null when the end is not known. */
  readonly share: number | null;
  /** Such as `step 1 200 of 5 000`. */
  readonly done: number | null;
  readonly total: number | null;
  readonly unit: "step" | "epoch";
  readonly elapsedS: number | null;
  readonly leftS: number | null;
}

/** What was seen of a run while the page was open: enough to tell its present pace. */
export interface Seen {
  readonly t: number;
  readonly done: number;
}

const SEEN_FOR_S = 120;
const ENOUGH_S = 5;

export function progressOf(row: RunRow, now: number, seen: readonly Seen[] = []): Progress {
  const isBySteps = row.step !== null && (row.total_steps !== null || row.num_epochs === null);
  const total = isBySteps ? row.total_steps : row.num_epochs;
  // Most count steps from 0: at step 0 one is done. Whoever counts from 1 ends at the total.
  const done = isBySteps ? Math.min(row.step! + 1, Math.max(row.step!, total ?? Infinity)) : row.epoch;
  const end = isEnded(row) ? row.updated : now;
  const elapsedS = row.created === null || end === null ? null : Math.max(0, end - row.created);
  const share = done === null || total === null || total <= 0 ? null : Math.min(1, done / total);
  const unit = isBySteps ? "step" : "epoch";
  const base = { share, done, total, unit, elapsedS } as const;
  if (isEnded(row) || share === null || share >= 1 || done === null || total === null) return { ...base, leftS: null };
  const perS = pace(seen) ?? (elapsedS !== null && elapsedS > 0 && row.attempts <= 1 ? done / elapsedS : null);
  return { ...base, leftS: perS === null || perS <= 0 ? null : (total - done) / perS };
}

/** Add what a row says now; only the last two minutes count. */
export function noteSeen(seen: readonly Seen[], row: RunRow): readonly Seen[] {
  const done = row.step !== null ? row.step + 1 : row.epoch;
  if (done === null || row.updated === null || done === seen.at(-1)?.done) return seen;
  const oldest = row.updated - SEEN_FOR_S;
  return [...seen.filter(({ t, done: before }) => t >= oldest && before < done), { t: row.updated, done }];
}

function pace(seen: readonly Seen[]): number | null {
  const [first, last] = [seen[0], seen.at(-1)];
  if (first === undefined || last === undefined || last.t - first.t < ENOUGH_S) return null;
  return (last.done - first.done) / (last.t - first.t);
}
