/** Where the time of steps goes: a stacked column for each stretch of steps, and one stretch in figures. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { fixed } from "../../chart/format.ts";
import { createStacked, createStackedBar, formatNumber, formatWhole } from "../../chart/index.ts";
import type { Segment, StackColumn, StackedOptions, StackPart } from "../../chart/index.ts";
import { wholeOf } from "../../chart/stacked.ts";
import { useSeriesQueries, useEntries } from "../../state/queries.ts";
import type { SeriesQueryOptions } from "../../state/series-cache.ts";
import type { Page } from "../../state/page.ts";
import { Mount } from "../../ui/mount.tsx";
import { Segmented } from "../../ui/segmented.tsx";
import type { RunRow } from "../../wire.ts";
import { gpuIds } from "../system-measures.ts";
import { Section } from "./section.tsx";
import {
  LOSSES,
  lostTime,
  meanPhases,
  phaseNames,
  phaseSlot,
  phasesOf,
  phaseValues,
  readingIn,
} from "./step-phases.ts";
import type { StepPhases } from "./step-phases.ts";

const MOST_RECORDS = 1000;
const MOST_COLUMNS = 120;
const HEIGHT = 220;

export interface TimeOfStepsProps {
  readonly page: Page;
  readonly run: RunRow;
}

/** The stretches of a run, the newest last; null until they are known. */
export function usePhaseRecords({ page, run }: TimeOfStepsProps): readonly StepPhases[] | null {
  const { list } = useEntries(page, "phases", run.id, { limit: MOST_RECORDS, spread: true });
  return useMemo(
    () => (list === null ? null : list.entries.flatMap((entry) => phasesOf(entry) ?? [])),
    [list],
  );
}

interface RecordsProps extends TimeOfStepsProps {
  readonly records: readonly StepPhases[];
}

export function TimeOfSteps({ page, run, records }: RecordsProps): JSX.Element {
  const kind = page.view.text("phases-as", "ms");
  const stretches = useMemo(() => thinned(records), [records]);
  const names = useMemo(() => phaseNames(stretches), [stretches]);
  const values = useMemo(() => stretches.map((one) => phaseValues(one, names)), [stretches, names]);
  const lost = useLostTime({ page, run, stretches });
  const tools = (
    <Segmented
      label="Phases as"
      value={kind.value === "shares" ? "shares" : "ms"}
      onChange={(value) => (kind.value = value)}
      choices={[
        { value: "ms", label: "ms" },
        { value: "shares", label: "%" },
      ]}
    />
  );
  return (
    <>
      <Section title="Where the time of a step goes" note="mean per step" tools={tools} isWide>
        <Stretches
          page={page}
          label="Time of a step by phase"
          stretches={stretches}
          values={values}
          parts={phaseParts(names)}
        />
      </Section>
      {lost !== null && (
        <Section title="Lost time by cause" note="useful: what the speed of light needs" isWide>
          <Stretches
            page={page}
            label="Lost time of a step by cause"
            stretches={lost.stretches}
            values={lost.values}
            parts={LOSSES.map(([label, slot]) => ({ label, slot }))}
          />
        </Section>
      )}
    </>
  );
}

interface LostTime {
  readonly stretches: readonly StepPhases[];
  readonly values: readonly (readonly number[])[];
}

/** Where the speed of light is known; what the GPU told of each stretch says what clocks and an idle GPU cost. */
function useLostTime({
  page,
  run,
  stretches,
}: TimeOfStepsProps & Pick<LostTime, "stretches">): LostTime | null {
  const detail = page.details.of(run.id).value;
  const hasIdeal = stretches.some(({ idealMs }) => idealMs !== null);
  const names = (detail?.metrics ?? [])
    .filter(({ axis }) => axis === "time")
    .map(({ name }) => name);
  // The first GPU stands for the first rank, whose phases these are.
  const [gpu] = gpuIds(names);
  const wanted =
    hasIdeal && gpu !== undefined
      ? ["clock", "gpu_util"]
          .map((field) => `gpu/${gpu}/${field}`)
          .filter((name) => names.includes(name))
      : [];
  const cells = useSeriesQueries(
    page,
    wanted.map(
      (name): SeriesQueryOptions => ({
        run: run.id,
        name,
        x: "wall",
        axis: "time",
        range: null,
        pixels: 1000,
      }),
    ),
  );
  if (!hasIdeal) return null;
  const read = (field: string, { from, to }: StepPhases): number | null =>
    readingIn(cells[wanted.findIndex((name) => name.endsWith(field))]?.parts?.[0]?.data, from, to);
  const peakClock = detail?.sol?.peak_clock;
  const found = stretches.flatMap((one) => {
    const lost = lostTime(one, {
      clockMhz: read("/clock", one),
      util: read("/gpu_util", one),
      peakClockMhz: typeof peakClock === "number" ? peakClock : null,
    });
    return lost === null ? [] : [{ one, lost }];
  });
  return { stretches: found.map(({ one }) => one), values: found.map(({ lost }) => lost) };
}

interface StretchesProps extends LostTime {
  readonly page: Page;
  readonly label: string;
  readonly parts: readonly StackPart[];
}

/** Stacked columns, and below them the chosen one in figures, or the newest. */
function Stretches({ page, label, stretches, values, parts }: StretchesProps): JSX.Element {
  const kind = page.view.text("phases-as", "ms");
  const chosen = page.view.text("phases-step");
  const at =
    chosen.value === "" ? -1 : stretches.findIndex(({ step }) => step === Number(chosen.value));
  const shown = at < 0 ? stretches.length - 1 : at;
  const current = stretches[shown]!;
  const options: StackedOptions = {
    label,
    parts,
    columns: stretches.map(
      (one, index): StackColumn => ({
        ...rangeOf(one),
        title: titleOf(one),
        values: values[index]!,
      }),
    ),
    xFormat: "step",
    isShares: kind.value === "shares",
    format: msText,
    selected: at < 0 ? null : at,
    onColumn: (index) => (chosen.value = index === at ? "" : String(stretches[index]!.step)),
  };
  const segments = segmentsOf(parts, values, shown);
  return (
    <>
      <Mount
        height={HEIGHT}
        create={(root) => createStacked(root, options)}
        update={(chart) => chart.update(options)}
      />
      <div class="section-body">
        <p class="card-note">
          {titleOf(current)}
          {current.wallMs === null ? "" : ` · ${msText(current.wallMs)} a step`}
          {at < 0 ? " · newest" : ""}
        </p>
        <Bar segments={segments} />
      </div>
    </>
  );
}

export function PhaseBar({
  phases,
  names,
}: {
  readonly phases: StepPhases;
  readonly names: readonly string[];
}): JSX.Element {
  return <Bar segments={segmentsOf(phaseParts(names), [phaseValues(phases, names)], 0)} />;
}

function Bar({ segments }: { readonly segments: readonly Segment[] }): JSX.Element {
  return (
    <Mount
      height="auto"
      create={(root) => createStackedBar(root, { segments })}
      update={(bar) => bar.update({ segments })}
    />
  );
}

function phaseParts(names: readonly string[]): readonly StackPart[] {
  return names.map((name) => ({ label: name, slot: phaseSlot(name, names) }));
}

/** One stretch in figures. Parts that only other stretches have are named too: the names tell what the colours above mean. */
export function segmentsOf(
  parts: readonly StackPart[],
  values: readonly (readonly number[])[],
  shown: number,
): readonly Segment[] {
  const whole = wholeOf({ values: values[shown]! });
  return parts.flatMap(({ label, slot }, part): Segment[] => {
    const value = values[shown]![part]!;
    if (!values.some((one) => one[part]! > 0)) return [];
    return [
      {
        label,
        value,
        slot,
        text:
          value > 0
            ? `${msText(value)}, ${((value / whole) * 100).toFixed(0)}\u00a0%`
            : "none here",
      },
    ];
  });
}

/** Of one precision, so that phases can be told apart at a glance; what would be nothing then keeps its digits. */
export function msText(ms: number): string {
  return `${ms < 0.05 ? formatNumber(ms) : fixed(ms, 1)} ms`;
}

function rangeOf({ step, steps }: StepPhases): { readonly min: number; readonly max: number } {
  return { min: step - steps + 1, max: step + 1 };
}

function titleOf({ step, steps }: StepPhases): string {
  return steps > 1
    ? `steps ${formatWhole(step - steps + 1)}–${formatWhole(step)}`
    : `step ${formatWhole(step)}`;
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
