/** How far a run is, how long it has taken, and how long it will take. */

import type { RunRow } from "../wire.ts";
import { isEnded } from "./run-rows.ts";

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

export function progressOf(row: RunRow, now: number): Progress {
  const isBySteps = row.step !== null && (row.total_steps !== null || row.num_epochs === null);
  const total = isBySteps ? row.total_steps : row.num_epochs;
  // Most count steps from 0: of a total, one is done at step 0. Whoever counts from 1 ends at the total. Without a total it is the last step.
  const done = !isBySteps
    ? row.epoch
    : total === null
      ? row.step!
      : Math.min(row.step! + 1, Math.max(row.step!, total));
  const end = isEnded(row) ? row.updated : now;
  const elapsedS = row.created === null || end === null ? null : Math.max(0, end - row.created);
  const share = done === null || total === null || total <= 0 ? null : Math.min(1, done / total);
  const unit = isBySteps ? "step" : "epoch";
  // The server estimates the end; once that has passed without an end, nothing is known.
  const leftS =
    isEnded(row) || row.ends_at === null || row.ends_at < now ? null : row.ends_at - now;
  return { share, done, total, unit, elapsedS, leftS };
}
