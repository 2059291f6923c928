/** What `phases` records have: the time of each phase of a step, and what it is lost to (as in `series/lost_time.py`). */

import type { SeriesData } from "../../chart/index.ts";
import type { EntryRow } from "../../wire.ts";

export interface StepPhases {
  readonly step: number;
  /** How many steps it is the mean of; they end at `step`. */
  readonly steps: number;
  readonly wallMs: number | null;
  /** The same step at the speed of light. */
  readonly idealMs: number | null;
  /** The share of steps in which the GPU had caught up with the host. */
  readonly hostBound: number | null;
  /** Unix seconds of the first step's beginning and of the last one's end. */
  readonly from: number;
  readonly to: number;
  /** Milliseconds by the phase's name. */
  readonly ms: ReadonlyMap<string, number>;
}

const PREFIX = "phase/";
export const OTHER = "other";
/** The phases that a training has, in the order of a step, each with a colour of its own in every run. */
const KNOWN: readonly string[] = [
  "data",
  "forward",
  "backward",
  "optimizer",
  "sync",
  "eval",
  "save",
  "log",
];
const SLOTS: Readonly<Record<string, number>> = {
  data: 1,
  forward: 0,
  backward: 4,
  optimizer: 2,
  sync: 3,
  eval: 6,
  save: 7,
  log: 8,
  other: 11,
};

/** Null for a record without a step or without phases. */
export function phasesOf({
  record,
  step,
  t,
}: Pick<EntryRow, "record" | "step" | "t">): StepPhases | null {
  const { m, steps: given, wall_ms: wall, ideal_ms: ideal, host_bound: bound } = record ?? {};
  if (step === null || typeof m !== "object" || m === null) return null;
  const ms = new Map<string, number>();
  for (const [name, value] of Object.entries(m)) {
    if (typeof value === "number" && value >= 0)
      ms.set(name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name, value);
  }
  if (ms.size === 0) return null;
  const steps = typeof given === "number" && given >= 1 ? given : 1;
  const wallMs = numberOf(wall);
  const to = t ?? NaN;
  return {
    step,
    ms,
    steps,
    wallMs,
    idealMs: numberOf(ideal),
    hostBound: numberOf(bound),
    from: to - ((wallMs ?? 0) * steps) / 1000,
    to,
  };
}

function numberOf(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

/** Every phase that occurs: known ones in the order of a step, then others by name; last what nobody timed. */
export function phaseNames(all: readonly StepPhases[]): readonly string[] {
  const found = new Set(all.flatMap(({ ms }) => [...ms.keys()]));
  found.delete(OTHER);
  const known = KNOWN.filter((name) => found.delete(name));
  return [...known, ...[...found].sort(), OTHER];
}

export function phaseSlot(name: string, names: readonly string[]): number {
  return SLOTS[name] ?? 9 + names.filter((one) => SLOTS[one] === undefined).indexOf(name) * 3;
}

/** Milliseconds of each name in turn; what is left of the whole step is the last. Absent is 0 here: nothing was timed. */
export function phaseValues(
  { ms, wallMs }: StepPhases,
  names: readonly string[],
): readonly number[] {
  const timed = names.slice(0, -1).map((name) => ms.get(name) ?? 0);
  const sum = timed.reduce((total, value) => total + value, 0);
  return [...timed, wallMs === null ? (ms.get(OTHER) ?? 0) : Math.max(0, wallMs - sum)];
}

/** The mean over several records, each as heavy as the steps it covers. */
export function meanPhases(all: readonly StepPhases[]): StepPhases | null {
  const steps = all.reduce((sum, one) => sum + one.steps, 0);
  const last = all.at(-1);
  if (last === undefined || steps === 0) return null;
  const ms = new Map<string, number>();
  for (const one of all)
    for (const [name, value] of one.ms)
      ms.set(name, (ms.get(name) ?? 0) + (value * one.steps) / steps);
  const mean = (field: "wallMs" | "idealMs" | "hostBound"): number | null =>
    all.reduce<number | null>(
      (sum, one) =>
        sum === null || one[field] === null ? null : sum + (one[field] * one.steps) / steps,
      0,
    );
  return {
    step: last.step,
    steps,
    wallMs: mean("wallMs"),
    idealMs: mean("idealMs"),
    hostBound: mean("hostBound"),
    from: all[0]!.from,
    to: last.to,
    ms,
  };
}

/** What a GPU told of a stretch of time. */
export interface Reading {
  readonly clockMhz: number | null;
  /** Percent. */
  readonly util: number | null;
  /** The clock that the peak is given for. */
  readonly peakClockMhz: number | null;
}

/** In the order in which they lie on each other, each with its colour. */
export const LOSSES = [
  ["useful", 2],
  ["kernels", 0],
  ["clocks", 5],
  ["host", 8],
  ["input wait", 1],
  ["communication", 3],
  ["other", 11],
] as const;

type Loss = (typeof LOSSES)[number][0];

/** The phases that do not compute, by what they are. */
const CAUSES: Readonly<Record<string, Loss>> = {
  data: "input wait",
  sync: "communication",
  log: "host",
  eval: "other",
  save: "other",
  other: "other",
};

/** Milliseconds of a step by what they went to, as `LOSSES` names them; null where the useful time is not known. */
export function lostTime(
  { ms, wallMs, idealMs, hostBound }: StepPhases,
  { clockMhz, util, peakClockMhz }: Reading,
): readonly number[] | null {
  if (idealMs === null || wallMs === null || !(wallMs > 0)) return null;
  const useful = Math.min(idealMs, wallMs);
  const lost: Record<Loss, number> = {
    useful,
    kernels: 0,
    clocks: 0,
    host: 0,
    "input wait": 0,
    communication: 0,
    other: 0,
  };
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
  const idle =
    util === null
      ? excess * (hostBound ?? 0)
      : Math.min(excess, Math.max(0, wallMs * (1 - Math.min(100, util) / 100) - waited));
  const slowed =
    clockMhz === null || !peakClockMhz
      ? 0
      : (useful + excess - idle) * Math.max(0, 1 - clockMhz / peakClockMhz);
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
