/** Where the time of a step goes that the speed of light does not need: the page's half of `series/lost_time.py`. */

import type { SeriesData } from "../chart/index.ts";
import { OTHER } from "./phases-record.ts";
import type { StepPhases } from "./phases-record.ts";

/** What a GPU told of a stretch of time. */
export interface Reading {
  readonly clockMhz: number | null;
  /** Percent. */
  readonly util: number | null;
  /** The clock that the peak is given for. */
  readonly peakClockMhz: number | null;
}

/** In the order in which they lie on each other, each with its colour. */
export const LOSSES = [["useful", 2], ["kernels", 0], ["clocks", 5], ["host", 8], ["input wait", 1], ["communication", 3], ["other", 11]] as const;

type Loss = (typeof LOSSES)[number][0];

/** The phases that do not compute, by what they are. */
const CAUSES: Readonly<Record<string, Loss>> = { data: "input wait", sync: "communication", log: "host", eval: "other", save: "other", other: "other" };

/** Milliseconds of a step by what they went to, as `LOSSES` names them; null where the useful time is not known. */
export function lostTime({ ms, wallMs, idealMs, hostBound }: StepPhases, { clockMhz, util, peakClockMhz }: Reading): readonly number[] | null {
  if (idealMs === null || wallMs === null || !(wallMs > 0)) return null;
  const useful = Math.min(idealMs, wallMs);
  const lost: Record<Loss, number> = { useful, kernels: 0, clocks: 0, host: 0, "input wait": 0, communication: 0, other: 0 };
  let [computed, timed] = [0, 0];
  for (const [name, mean] of ms) {
    const cause = CAUSES[name];
    timed += mean;
    if (cause === undefined) computed += mean;
    else lost[cause] += mean;
  }
  if (!ms.has(OTHER)) lost.other += Math.max(0, wallMs - timed);
  const excess = Math.max(0, computed - useful);
  const waited = lost["input wait"] + lost.host + lost.other;
  const idle = util === null ? excess * (hostBound ?? 0) : Math.min(excess, Math.max(0, wallMs * (1 - Math.min(100, util) / 100) - waited));
  const slowed = clockMhz === null || !peakClockMhz ? 0 : (useful + excess - idle) * Math.max(0, 1 - clockMhz / peakClockMhz);
  lost.host += idle;
  lost.clocks = Math.min(slowed, excess - idle);
  lost.kernels = excess - idle - lost.clocks;
  // Phases by the host's clock may end before their work: then they say less than was useful.
  const total = LOSSES.reduce((sum, [name]) => (name === "useful" ? sum : sum + lost[name]), 0);
  if (total === 0) lost.other = wallMs - useful;
  const scale = total > 0 ? (wallMs - useful) / total : 1;
  return LOSSES.map(([name]) => (name === "useful" ? useful : lost[name] * scale));
}

/** The mean of what was read between two times, else the last reading before them; null where there is none. */
export function readingIn(data: SeriesData | undefined, from: number, to: number): number | null {
  if (data === undefined) return null;
  const [x, y] = data.kind === "raw" ? [data.x, data.y] : [data.lastX, data.mean];
  let [sum, count, before] = [0, 0, NaN];
  x.forEach((at, index) => {
    if (at > to || !Number.isFinite(y[index]!)) return;
    before = y[index]!;
    if (at < from) return;
    sum += before;
    count++;
  });
  if (count > 0) return sum / count;
  return Number.isNaN(before) ? null : before;
}
