/** Where the time of steps goes: a stacked column for each stretch of steps, and one stretch in figures. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { fixed } from "../../chart/format.ts";
import { createStacked, createStackedBar, formatNumber, formatWhole } from "../../chart/index.ts";
import type { Segment, StackColumn, StackedOptions } from "../../chart/index.ts";
import { useEntries } from "../../state/asking.ts";
import type { Page } from "../../state/page.ts";
import { download } from "../../ui/download.ts";
import { Menu } from "../../ui/menu.tsx";
import { Mount } from "../../ui/mount.tsx";
import { Segmented } from "../../ui/segmented.tsx";
import type { RunRow } from "../../wire.ts";
import { meanPhases, phaseNames, phaseSlot, phasesOf, phaseValues } from "../phases-record.ts";
import type { StepPhases } from "../phases-record.ts";
import { Section } from "./section.tsx";
import { phaseTable } from "./timing-csv.ts";

const MOST_RECORDS = 1000;
const MOST_COLUMNS = 120;
const HEIGHT = 220;

export interface TimeOfStepsProps {
  readonly page: Page;
  readonly run: RunRow;
}

/** The stretches of a run, the newest last; null until they are known. */
export function usePhaseRecords({ page, run }: TimeOfStepsProps): readonly StepPhases[] | null {
  const { list } = useEntries(page, "phases", run.id, { limit: MOST_RECORDS, isSpread: true });
  return useMemo(() => (list === null ? null : list.entries.flatMap((entry) => phasesOf(entry) ?? [])), [list]);
}

export function TimeOfSteps({ page, run, records }: TimeOfStepsProps & { readonly records: readonly StepPhases[] }): JSX.Element {
  const kind = page.view.text("phases-as", "ms");
  const chosen = page.view.text("phases-step");
  const stretches = useMemo(() => thinned(records), [records]);
  const names = useMemo(() => phaseNames(stretches), [stretches]);
  const columns = useMemo(() => stretches.map((one): StackColumn => ({ ...rangeOf(one), title: titleOf(one), values: phaseValues(one, names) })), [stretches, names]);
  const parts = names.map((name) => ({ label: name, slot: phaseSlot(name, names) }));
  const at = chosen.value === "" ? -1 : stretches.findIndex(({ step }) => step === Number(chosen.value));
  const current = stretches[at] ?? stretches.at(-1)!;
  const options: StackedOptions = {
    label: "Time of a step by phase",
    parts, columns,
    xFormat: "step",
    isShares: kind.value === "shares",
    format: msText,
    selected: at < 0 ? null : at,
    onColumn: (index) => (chosen.value = index === at ? "" : String(stretches[index]!.step)),
  };
  const tools = (
    <>
      <Segmented label="Phases as" value={kind.value === "shares" ? "shares" : "ms"} onChange={(value) => (kind.value = value)}
        choices={[{ value: "ms", label: "ms" }, { value: "shares", label: "%" }]} />
      <Menu label="Downloads of phases" items={[{ label: "Download CSV", run: () => download(`${run.name} phases.csv`, phaseTable(records), "text/csv;charset=utf-8") }]}>⋯</Menu>
    </>
  );
  return (
    <Section title="Where the time of a step goes" note="mean per step" tools={tools} isWide>
      <Mount height={HEIGHT} create={(root) => createStacked(root, options)} update={(chart) => chart.update(options)} />
      <div class="section-body">
        <p class="card-note">{titleOf(current)}{current.wallMs === null ? "" : ` · ${msText(current.wallMs)} a step`}{at < 0 ? " · newest" : ""}</p>
        <PhaseBar phases={current} names={names} />
      </div>
    </Section>
  );
}

export function PhaseBar({ phases, names }: { readonly phases: StepPhases; readonly names: readonly string[] }): JSX.Element {
  const values = phaseValues(phases, names);
  const whole = values.reduce((sum, value) => sum + value, 0);
  const segments = names.flatMap((name, index): Segment[] => {
    const value = values[index]!;
    return value > 0 ? [{ label: name, value, text: `${msText(value)}, ${((value / whole) * 100).toFixed(0)}%`, slot: phaseSlot(name, names) }] : [];
  });
  return <Mount height="auto" create={(root) => createStackedBar(root, { segments })} update={(bar) => bar.update({ segments })} />;
}

/** Of one precision, so that phases can be told apart at a glance; what would be nothing then keeps its digits. */
export function msText(ms: number): string {
  return `${ms < 0.05 ? formatNumber(ms) : fixed(ms, 1)} ms`;
}

function rangeOf({ step, steps }: StepPhases): { readonly min: number; readonly max: number } {
  return { min: step - steps + 1, max: step + 1 };
}

function titleOf({ step, steps }: StepPhases): string {
  return steps > 1 ? `steps ${formatWhole(step - steps + 1)}–${formatWhole(step)}` : `step ${formatWhole(step)}`;
}

/** Neighbours joined until the columns can be told apart. */
export function thinned(records: readonly StepPhases[]): readonly StepPhases[] {
  const each = Math.ceil(records.length / MOST_COLUMNS);
  if (each <= 1) return records;
  const found: StepPhases[] = [];
  for (let start = 0; start < records.length; start += each) {
    const mean = meanPhases(records.slice(start, start + each));
    if (mean !== null) found.push(mean);
  }
  return found;
}
