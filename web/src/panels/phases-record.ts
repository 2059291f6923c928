/** What a `phases` record holds: how long each phase of a step took on average, and what is left of the step. */

import type { EntryRow } from "../wire.ts";

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
const KNOWN: readonly string[] = ["data", "forward", "backward", "optimizer", "sync", "eval", "save", "log"];
const SLOTS: Readonly<Record<string, number>> = { data: 1, forward: 0, backward: 4, optimizer: 2, sync: 3, eval: 6, save: 7, log: 8, other: 11 };

/** Null for a record without a step or without phases. */
export function phasesOf({ record, step, t }: Pick<EntryRow, "record" | "step" | "t">): StepPhases | null {
  const { m, steps: given, wall_ms: wall, ideal_ms: ideal, host_bound: bound } = record ?? {};
  if (step === null || typeof m !== "object" || m === null) return null;
  const ms = new Map<string, number>();
  for (const [name, value] of Object.entries(m)) {
    if (typeof value === "number" && value >= 0) ms.set(name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name, value);
  }
  if (ms.size === 0) return null;
  const steps = typeof given === "number" && given >= 1 ? given : 1;
  const wallMs = numberOf(wall);
  const to = t ?? NaN;
  return { step, ms, steps, wallMs, idealMs: numberOf(ideal), hostBound: numberOf(bound), from: to - ((wallMs ?? 0) * steps) / 1000, to };
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
export function phaseValues({ ms, wallMs }: StepPhases, names: readonly string[]): readonly number[] {
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
  for (const one of all) for (const [name, value] of one.ms) ms.set(name, (ms.get(name) ?? 0) + (value * one.steps) / steps);
  const mean = (field: "wallMs" | "idealMs" | "hostBound"): number | null => (
    all.reduce<number | null>((sum, one) => (sum === null || one[field] === null ? null : sum + (one[field] * one.steps) / steps), 0)
  );
  return { step: last.step, steps, wallMs: mean("wallMs"), idealMs: mean("idealMs"), hostBound: mean("hostBound"), from: all[0]!.from, to: last.to, ms };
}
