/** The distribution of weights and gradients, over the steps and at one of them. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import {
  createBands,
  createHistogram,
  createRidge,
  formatNumber,
  formatWhole,
  percentilesOf,
} from "../chart/index.ts";
import type { StepDistribution, Range } from "../chart/index.ts";
import { equalValues, innerExtent, total } from "../chart/distribution.ts";
import { nearestIndex } from "../chart/series.ts";
import { useEntries } from "../state/queries.ts";
import type { Page } from "../state/page.ts";
import { Mount } from "../ui/mount.tsx";
import { SearchBox } from "../ui/search-box.tsx";
import { Segmented } from "../ui/segmented.tsx";
import type { EntryRow, RunRow } from "../wire.ts";
import type { RunSection, SectionProps } from "./panel.ts";
import { useInView } from "./parts/in-view.tsx";
import { searchOf } from "./parts/search.ts";
import { Section } from "./parts/section.tsx";
import { parseStep, StepSlider } from "./parts/step-slider.tsx";
import "./histograms.css";

const MOST_STEPS = 150;
const HEIGHT = 220;

export const section: RunSection = {
  order: 30,
  id: "histograms",
  title: "Histograms",
  shortcut: "h",
  component: Histograms,
  hasContent: (_, { recorded }) => recorded.includes("histogram"),
};

function Histograms({ page, run }: SectionProps): JSX.Element {
  const { list, problem } = useEntries(page, "histograms", run.id, { limit: 1 });
  const search = searchOf(page, "hist");
  const kind = page.view.text("hist-as", "ridge");
  const names = Object.keys(list?.names ?? {});
  const shown = names.filter(search.matches);
  return (
    <div class="pane" aria-busy={list === null && problem === null}>
      <div class="pane-bar">
        <Segmented
          label="Drawn as"
          value={kind.value === "bands" ? "bands" : "ridge"}
          onChange={(value) => (kind.value = value)}
          choices={[
            { value: "ridge", label: "Ridges" },
            { value: "bands", label: "Percentiles" },
          ]}
        />
        {names.length > 4 && (
          <SearchBox
            label="Filter histograms"
            query={search.query}
            count={`${shown.length} of ${names.length}`}
            onChange={search.onChange}
          />
        )}
      </div>
      {problem !== null && <p role="status">{problem}</p>}
      <div class="pane-grid">
        {shown.map((name) => (
          <HistogramSection
            key={name}
            page={page}
            run={run}
            name={name}
            isBands={kind.value === "bands"}
          />
        ))}
      </div>
    </div>
  );
}

function HistogramSection({
  page,
  run,
  name,
  isBands,
}: {
  readonly page: Page;
  readonly run: RunRow;
  readonly name: string;
  readonly isBands: boolean;
}): JSX.Element {
  const [root, isInView] = useInView(page.lazy);
  const { list } = useEntries(page, "histograms", isInView ? run.id : null, {
    name,
    limit: MOST_STEPS,
    spread: true,
  });
  const histograms = useMemo(
    () => (list?.entries ?? []).flatMap((entry) => distributionOf(entry) ?? []),
    [list],
  );
  const num = list?.total ?? 0;
  const note =
    num === 0
      ? undefined
      : num > histograms.length
        ? `${histograms.length} of ${formatWhole(num)} steps`
        : `${num} steps`;
  return (
    <Section title={name} note={note}>
      <div ref={root} class="histogram" style={{ minHeight: `${2 * HEIGHT}px` }}>
        {histograms.length > 0 && (
          <Drawn
            page={page}
            histograms={histograms}
            name={name}
            slot={page.runs.slot(run.id)}
            isBands={isBands}
          />
        )}
      </div>
    </Section>
  );
}

interface DrawnProps {
  readonly page: Page;
  readonly histograms: readonly Histogram[];
  readonly name: string;
  readonly slot: number;
  readonly isBands: boolean;
}

function Drawn({ page, histograms, name, slot, isBands }: DrawnProps): JSX.Element {
  const chosen = page.view.text("hist-step");
  const steps = useMemo(
    () => histograms.map(({ distribution }) => distribution.step),
    [histograms],
  );
  const wanted = parseStep(chosen.value);
  const at = wanted === null ? histograms.length - 1 : nearestIndex(steps, wanted);
  const current = histograms[at]!;
  const distributions = useMemo(
    (): readonly StepDistribution[] => histograms.map(({ distribution }) => distribution),
    [histograms],
  );
  const range = useMemo((): Range => innerExtent(distributions), [distributions]);
  const select = (step: number | null): void => {
    chosen.value = step === null ? "" : String(step);
  };
  const common = { label: name, slot };
  const bands = {
    ...common,
    percentiles: useMemo(() => percentilesOf(distributions), [distributions]),
    xFormat: "step" as const,
    selectedX: current.distribution.step,
    onX: select,
  };
  const ridge = {
    ...common,
    distributions,
    selectedStep: current.distribution.step,
    onStep: select,
  };
  const bars = { ...common, distribution: current.distribution, range };
  return (
    <>
      {isBands ? (
        <Mount
          key="bands"
          height={HEIGHT}
          create={(root) => createBands(root, bands)}
          update={(chart) => chart.update(bands)}
        />
      ) : (
        <Mount
          key="ridge"
          height={HEIGHT}
          create={(root) => createRidge(root, ridge)}
          update={(chart) => chart.update(ridge)}
        />
      )}
      <div class="histogram-step">
        <StepSlider steps={steps} step={wanted} onChange={select} />
      </div>
      <Mount
        height={HEIGHT - 70}
        create={(root) => createHistogram(root, bars)}
        update={(chart) => chart.update(bars)}
      />
      <p class="histogram-facts">{factsOf(current)}</p>
    </>
  );
}

function factsOf({ count, mean, std, min, max, numNonfinite }: Histogram): string {
  const words = [
    count === null ? null : `${formatWhole(count)} values`,
    mean === null ? null : `mean ${formatNumber(mean)}`,
    std === null ? null : `± ${formatNumber(std)}`,
    min === null || max === null ? null : `${formatNumber(min)} to ${formatNumber(max)}`,
    numNonfinite > 0 ? `${formatWhole(numNonfinite)} not finite` : null,
  ];
  return words.filter((word) => word !== null).join(" · ");
}

export interface Histogram {
  readonly distribution: StepDistribution;
  readonly count: number | null;
  readonly mean: number | null;
  readonly std: number | null;
  readonly min: number | null;
  readonly max: number | null;
  readonly numNonfinite: number;
}

/** Null for a record that is no histogram with a step and bins. Equal values are drawn where they are, whichever bins they were counted in. */
export function distributionOf({
  record,
  step,
}: Pick<EntryRow, "record" | "step">): Histogram | null {
  const { lo, hi, counts, ...facts } = record ?? {};
  if (
    step === null ||
    typeof lo !== "number" ||
    typeof hi !== "number" ||
    hi < lo ||
    !Array.isArray(counts) ||
    counts.length === 0
  )
    return null;
  const [min, max] = [number(facts.min), number(facts.max)];
  const amounts = Float64Array.from(counts, (count) => (typeof count === "number" ? count : 0));
  const only = min !== null && min === max ? min : lo === hi ? lo : null;
  const bins =
    only === null
      ? {
          edges: Float64Array.from(
            { length: counts.length + 1 },
            (_, index) => lo + ((hi - lo) * index) / counts.length,
          ),
          counts: amounts,
        }
      : equalValues(only, total(amounts));
  return {
    distribution: { step, ...bins },
    count: number(facts.count),
    mean: number(facts.mean),
    std: number(facts.std),
    min,
    max,
    numNonfinite: number(facts.nonfinite_count) ?? 0,
  };
}

function number(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
