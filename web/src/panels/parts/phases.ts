/** The phases a training goes through, as its own records name them: in which colour, and what each means. */

import type { Stretch } from "../../chart/index.ts";
import type { PlacedMark } from "../../state/marks.ts";

interface Phase {
  readonly tone: Stretch["tone"];
  readonly meaning: string;
}

const PHASES: Readonly<Record<string, Phase>> = {
  "warm-up": {
    tone: "quiet",
    meaning: "The first steps: the learning rate rises, and rules ignore the loss.",
  },
  converging: { tone: "good", meaning: "The loss is falling." },
  plateau: {
    tone: "info",
    meaning: "The loss hardly changes: the schedule may be near its end, or the rate too low.",
  },
  unstable: {
    tone: "warning",
    meaning: "The loss oscillates: it often recovers, but may diverge later.",
  },
  diverging: {
    tone: "critical",
    meaning: "The loss rises: lower the rate, or resume from a checkpoint.",
  },
};

export function phaseTone(phase: string): Stretch["tone"] {
  return PHASES[phase]?.tone ?? "quiet";
}

/** Null for a word that this page does not know. */
export function phaseMeaning(phase: string): string | null {
  return PHASES[phase]?.meaning ?? null;
}

/** The phases that occur, each once. */
export function phasesIn(marks: readonly PlacedMark[]): readonly string[] {
  return [...new Set(marks.filter(({ kind }) => kind === "phase").map(({ label }) => label))];
}

/** Phases from their beginnings; the last ends where the run does. */
export function phaseStretches(marks: readonly PlacedMark[], end: number): readonly Stretch[] {
  const begun = marks.filter(({ kind }) => kind === "phase");
  return begun.map(
    ({ x, label }, index): Stretch => ({
      min: x,
      max: begun[index + 1]?.x ?? end,
      label: `phase: ${label}`,
      tone: phaseTone(label),
    }),
  );
}
