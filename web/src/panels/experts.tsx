/** The load of every expert in every layer, at one step and over all steps. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { createHeatmap, formatPercent } from "../chart/index.ts";
import type { HeatmapOptions } from "../chart/index.ts";
import { nearestIndex } from "../chart/series.ts";
import { useEntries } from "../state/queries.ts";
import type { Page } from "../state/page.ts";
import { Mount } from "../ui/mount.tsx";
import type { EntryRow } from "../wire.ts";
import type { RunSection, SectionProps } from "./panel.ts";
import { ChartGrid, chartOf } from "./parts/run-charts.tsx";
import { Section } from "./parts/section.tsx";
import { parseStep, StepSlider } from "./parts/step-slider.tsx";
import "./experts.css";

/** So many shares are asked for at most: a large model has ten thousand a step. */
const MOST_SHARES = 400_000;
const MOST_STEPS = 240;
const ROW_PX = 22;
/** What routers are judged by, first. */
const MEASURES = [
  "load_imbalance",
  "expert_utilization",
  "max_expert_fraction",
  "load_cv",
  "router_entropy",
  "aux_loss",
  "z_loss",
  "router_confidence",
];

export const section: RunSection = {
  order: 110,
  id: "experts",
  title: "Experts",
  shortcut: "y",
  component: Experts,
  hasContent: (_, { recorded }) => recorded.includes("experts"),
};

function Experts({ page, run, detail }: SectionProps): JSX.Element {
  // The newest alone tells how large one is.
  const newest = useEntries(page, "experts", run.id, { limit: 1 });
  const size = useMemo(
    () =>
      newest.list?.entries.flatMap((entry) => expertLoadOf(entry) ?? [])[0]?.shares.length ?? null,
    [newest.list],
  );
  const limit =
    size === null ? 0 : Math.max(2, Math.min(MOST_STEPS, Math.floor(MOST_SHARES / size)));
  const all = useEntries(page, "experts", size === null ? null : run.id, { limit, spread: true });
  const loads = useMemo(
    () => (all.list?.entries ?? []).flatMap((entry) => expertLoadOf(entry) ?? []),
    [all.list],
  );
  const measures = MEASURES.flatMap(
    (name) => detail.metrics.find((metric) => metric.name === `moe/${name}`) ?? [],
  );
  return (
    <div class="pane">
      {loads.length > 0 && (
        <div class="pane-bar">
          <StepChoice page={page} loads={loads} />
        </div>
      )}
      {newest.problem !== null && <p role="status">{newest.problem}</p>}
      {loads.length > 0 && <Loads page={page} loads={loads} total={all.list?.total ?? 0} />}
      <ChartGrid
        page={page}
        run={run.id}
        of="Experts"
        charts={measures.map((row) => chartOf(row))}
      />
    </div>
  );
}

function chosenStep({ view }: Page): number | null {
  return parseStep(view.text("experts-step").value);
}

function choose({ view }: Page, step: number | null): void {
  view.text("experts-step").value = step === null ? "" : String(step);
}

function StepChoice({
  page,
  loads,
}: {
  readonly page: Page;
  readonly loads: readonly ExpertLoad[];
}): JSX.Element {
  return (
    <StepSlider
      steps={loads.map(({ step }) => step)}
      step={chosenStep(page)}
      onChange={(step) => choose(page, step)}
    />
  );
}

function Loads({
  page,
  loads,
  total,
}: {
  readonly page: Page;
  readonly loads: readonly ExpertLoad[];
  readonly total: number;
}): JSX.Element {
  const steps = useMemo(() => Float64Array.from(loads, ({ step }) => step), [loads]);
  const wanted = chosenStep(page);
  const at = wanted === null ? loads.length - 1 : nearestIndex(steps, wanted);
  const current = loads[at]!;
  const layerChoice = page.view.text("experts-layer");
  const layers = layerSummaries(current);
  const worst = layers.reduce((one, other) => (other.imbalance > one.imbalance ? other : one));
  const layer = current.layers.includes(layerChoice.value) ? layerChoice.value : worst.layer;
  const matrix: HeatmapOptions = {
    label: `Load of each expert at step ${current.step}, as multiples of an even share`,
    rowNames: current.layers,
    columns: {
      names: Array.from({ length: current.numExperts }, (_, expert) => String(expert)),
      noun: "expert",
    },
    values: useMemo(() => relativeLoad(current), [current]),
    ramp: "sequential",
    range: { min: 0, max: rampEnd(loads) },
    format: evenText(current),
    selected: { row: current.layers.indexOf(layer), column: null },
    onCell: (row) => (layerChoice.value = current.layers[row] ?? ""),
  };
  const history = useMemo(() => overSteps(loads, layer), [loads, layer]);
  const time: HeatmapOptions = {
    label: `Load of the experts of ${layerTitle(layer)} over ${loads.length} steps`,
    rowNames: Array.from({ length: history.numExperts }, (_, expert) => `expert ${expert}`),
    columns: { x: steps, format: "step" },
    values: history.values,
    ramp: "sequential",
    range: matrix.range!,
    format: evenText(current),
    selected: { row: null, column: at },
    onCell: (_, column) => choose(page, column === loads.length - 1 ? null : steps[column]!),
  };
  const note = total > loads.length ? `${loads.length} of ${total} steps` : `${loads.length} steps`;
  return (
    <>
      <p class="experts-summary">{sentence(current, layers, worst)}</p>
      <div class="experts-maps">
        <Section title="Layers and experts" note="× an even share; a click chooses the layer">
          <Drawn options={matrix} height={mapHeight(current.layers.length)} />
        </Section>
        <Section title={`${layerTitle(layer)} over steps`} note={note}>
          <Drawn options={time} height={mapHeight(history.numExperts)} />
        </Section>
      </div>
      <LayerTable layers={layers} onChoose={(name) => (layerChoice.value = name)} chosen={layer} />
    </>
  );
}

function Drawn({
  options,
  height,
}: {
  readonly options: HeatmapOptions;
  readonly height: number;
}): JSX.Element {
  return (
    <div class="experts-map">
      <Mount
        height={height}
        create={(root) => createHeatmap(root, options)}
        update={(chart) => chart.update(options)}
      />
    </div>
  );
}

function mapHeight(rows: number): number {
  return Math.max(140, Math.min(460, rows * ROW_PX + 52));
}

/** The same colours at every step; at least twice an even share, so that noise does not look like a fault. */
function rampEnd(loads: readonly ExpertLoad[]): number {
  let end = 2;
  for (const load of loads)
    for (const { imbalance } of layerSummaries(load)) if (imbalance > end) end = imbalance;
  return end;
}

function evenText({ numExperts }: ExpertLoad): (value: number) => string {
  return (value) =>
    Number.isNaN(value)
      ? "no such expert"
      : `${value.toFixed(2)} × even · ${formatPercent(value / numExperts)} of the work`;
}

function sentence(
  { step, topK }: ExpertLoad,
  layers: readonly LayerSummary[],
  worst: LayerSummary,
): string {
  const idle = layers.reduce((sum, { numIdle }) => sum + numIdle, 0);
  const all = layers.reduce((sum, { numExperts }) => sum + numExperts, 0);
  const routed = topK === null ? "" : `, ${topK} experts a token`;
  const unused =
    idle === 0
      ? "Every expert is in use."
      : `${idle} of ${all} experts get less than a tenth of an even share.`;
  return `Step ${step}${routed}: the busiest is expert ${worst.busiest} of ${layerTitle(worst.layer)} with ${worst.imbalance.toFixed(2)} times an even share. ${unused}`;
}

/** The same in words and numbers, for those who cannot or need not see colours. */
function LayerTable({
  layers,
  chosen,
  onChoose,
}: {
  readonly layers: readonly LayerSummary[];
  readonly chosen: string;
  readonly onChoose: (layer: string) => void;
}): JSX.Element {
  return (
    <details class="experts-table">
      <summary>As a table</summary>
      <table>
        <thead>
          <tr>
            <th scope="col">Layer</th>
            <th scope="col">Experts</th>
            <th scope="col">Busiest</th>
            <th scope="col">Largest load</th>
            <th scope="col">Hardly used</th>
          </tr>
        </thead>
        <tbody>
          {layers.map(({ layer, numExperts, busiest, imbalance, numIdle }) => (
            <tr key={layer} aria-current={layer === chosen}>
              <th scope="row">
                <button type="button" class="button is-quiet" onClick={() => onChoose(layer)}>
                  {layer}
                </button>
              </th>
              <td>{numExperts}</td>
              <td>expert {busiest}</td>
              <td>{imbalance.toFixed(2)} × even</td>
              <td>{numIdle}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}

export interface ExpertLoad {
  readonly step: number;
  readonly layers: readonly string[];
  readonly numExperts: number;
  readonly topK: number | null;
  /** Layer by layer, each expert's share; nan where a layer has fewer experts than another. */
  readonly shares: Float64Array;
}

/** Null for a record that has no step or no layers. */
export function expertLoadOf({
  record,
  step,
}: Pick<EntryRow, "record" | "step">): ExpertLoad | null {
  const { layers, load, top_k: topK } = record ?? {};
  if (step === null || !Array.isArray(layers) || !Array.isArray(load) || layers.length === 0)
    return null;
  const rows: readonly unknown[][] = layers.map((_, index) =>
    Array.isArray(load[index]) ? (load[index] as unknown[]) : [],
  );
  const numExperts = Math.max(...rows.map(({ length }) => length));
  if (numExperts === 0) return null;
  const shares = new Float64Array(rows.length * numExperts).fill(NaN);
  rows.forEach((row, layer) =>
    row.forEach((share, expert) => {
      if (typeof share === "number") shares[layer * numExperts + expert] = share;
    }),
  );
  return {
    step,
    layers: layers.map(String),
    numExperts,
    topK: typeof topK === "number" ? topK : null,
    shares,
  };
}

export interface LayerSummary {
  readonly layer: string;
  readonly numExperts: number;
  /** The largest share over the even one: 1 is perfectly balanced. */
  readonly imbalance: number;
  readonly busiest: number;
  /** Experts with less than a tenth of the even share. */
  readonly numIdle: number;
}

const IDLE_SHARE = 0.1;

export function layerSummaries({
  layers,
  numExperts,
  shares,
}: ExpertLoad): readonly LayerSummary[] {
  return layers.map((layer, index) => {
    const row = [...shares.subarray(index * numExperts, (index + 1) * numExperts)].filter(
      (share) => !Number.isNaN(share),
    );
    const largest = Math.max(...row, 0);
    return {
      layer,
      numExperts: row.length,
      imbalance: largest * row.length,
      busiest: row.indexOf(largest),
      numIdle: row.filter((share) => share * row.length < IDLE_SHARE).length,
    };
  });
}

/** Shares as multiples of the even one, so that layers of any width compare. */
export function relativeLoad({ numExperts, shares, layers }: ExpertLoad): Float64Array {
  const counts = layers.map(
    (_, layer) =>
      shares
        .subarray(layer * numExperts, (layer + 1) * numExperts)
        .filter((share) => !Number.isNaN(share)).length,
  );
  return shares.map((share, index) => share * counts[Math.floor(index / numExperts)]!);
}

/** One layer's experts over steps, expert by expert; layers are found by name, since a model may change between attempts. */
export function overSteps(
  loads: readonly ExpertLoad[],
  layer: string,
): { readonly numExperts: number; readonly values: Float64Array } {
  const numExperts = Math.max(0, ...loads.map((load) => load.numExperts));
  const values = new Float64Array(numExperts * loads.length).fill(NaN);
  loads.forEach((load, column) => {
    const row = load.layers.indexOf(layer);
    if (row < 0) return;
    const relative = relativeLoad(load);
    for (let expert = 0; expert < load.numExperts; expert++)
      values[expert * loads.length + column] = relative[row * load.numExperts + expert]!;
  });
  return { numExperts, values };
}

/** A layer's name in a sentence, where a number alone would be read as one. */
export function layerTitle(layer: string): string {
  return /^\d+$/.test(layer) ? `layer ${layer}` : layer;
}
