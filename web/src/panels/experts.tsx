/** The load of every expert in every layer, at one step and over all steps. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { createHeatmap, formatPercent } from "../chart/index.ts";
import type { HeatmapOptions } from "../chart/index.ts";
import { nearestIndex } from "../chart/series.ts";
import { useEntries } from "../state/queries.ts";
import type { Page } from "../state/page.ts";
import { Empty } from "../ui/empty.tsx";
import { Mount } from "../ui/mount.tsx";
import type { RunRow } from "../wire.ts";
import { expertLoadOf, layerSummaries, layerTitle, overSteps, relativeLoad } from "./experts-record.ts";
import type { ExpertLoad, LayerSummary } from "./experts-record.ts";
import type { PanelProps, Section as RunSection } from "./panel.ts";
import { ChartCard } from "./parts/chart-card.tsx";
import { FocusedRun, RunPicker } from "./parts/run-picker.tsx";
import { Section } from "./parts/section.tsx";
import { parseStep, StepSlider } from "./parts/step-slider.tsx";
import "./experts.css";

/** So many shares are asked for at most: a large model has ten thousand a step. */
const MOST_SHARES = 400_000;
const MOST_STEPS = 240;
const ROW_PX = 22;
const CHART_HEIGHT = 200;
/** What routers are judged by, first. */
const MEASURES = ["load_imbalance", "expert_utilization", "max_expert_fraction", "load_cv", "router_entropy", "aux_loss", "z_loss", "router_confidence"];

export const section: RunSection = { order: 60, id: "experts", title: "Experts", shortcut: "y", component: Experts, hasContent: () => true };

function Experts({ page }: PanelProps): JSX.Element {
  return <FocusedRun page={page}>{(run) => <ExpertsOf key={run.id} page={page} run={run} />}</FocusedRun>;
}

function ExpertsOf({ page, run }: { readonly page: Page; readonly run: RunRow }): JSX.Element {
  // The newest alone tells how large one is.
  const newest = useEntries(page, "experts", run.id, { limit: 1 });
  const size = useMemo(() => newest.list?.entries.flatMap((entry) => expertLoadOf(entry) ?? [])[0]?.shares.length ?? null, [newest.list]);
  const limit = size === null ? 0 : Math.max(2, Math.min(MOST_STEPS, Math.floor(MOST_SHARES / size)));
  const all = useEntries(page, "experts", size === null ? null : run.id, { limit, spread: true });
  const loads = useMemo(() => (all.list?.entries ?? []).flatMap((entry) => expertLoadOf(entry) ?? []), [all.list]);
  const measures = MEASURES.flatMap((name) => page.metrics.value.find((metric) => metric.name === `moe/${name}`) ?? []);
  const isKnown = newest.list !== null && page.details.of(run.id).value !== null;
  return (
    <div class="pane">
      <div class="pane-bar"><RunPicker page={page} />{loads.length > 0 && <StepChoice page={page} loads={loads} />}</div>
      {newest.problem !== null && <p role="status">{newest.problem}</p>}
      {loads.length > 0 && <Loads page={page} loads={loads} total={all.list?.total ?? 0} />}
      {isKnown && size === null && (
        <Empty title="This run has no expert loads" code="epochal.watch_moe(model)">
          Watch a mixture-of-experts model to see the load of each expert in each layer.
        </Empty>
      )}
      {measures.length > 0 && (
        <div class="chart-grid">{measures.map((metric) => <ChartCard key={metric.name} page={page} metric={metric} height={CHART_HEIGHT} />)}</div>
      )}
    </div>
  );
}

function chosenStep({ view }: Page): number | null {
  return parseStep(view.text("experts-step").value);
}

function choose({ view }: Page, step: number | null): void {
  view.text("experts-step").value = step === null ? "" : String(step);
}

function StepChoice({ page, loads }: { readonly page: Page; readonly loads: readonly ExpertLoad[] }): JSX.Element {
  return <StepSlider steps={loads.map(({ step }) => step)} step={chosenStep(page)} onChange={(step) => choose(page, step)} />;
}

function Loads({ page, loads, total }: { readonly page: Page; readonly loads: readonly ExpertLoad[]; readonly total: number }): JSX.Element {
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
    columns: { names: Array.from({ length: current.numExperts }, (_, expert) => String(expert)), noun: "expert" },
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

function Drawn({ options, height }: { readonly options: HeatmapOptions; readonly height: number }): JSX.Element {
  return <div class="experts-map"><Mount height={height} create={(root) => createHeatmap(root, options)} update={(chart) => chart.update(options)} /></div>;
}

function mapHeight(rows: number): number {
  return Math.max(140, Math.min(460, rows * ROW_PX + 52));
}

/** The same colours at every step; at least twice an even share, so that noise does not look like a fault. */
function rampEnd(loads: readonly ExpertLoad[]): number {
  let end = 2;
  for (const load of loads) for (const { imbalance } of layerSummaries(load)) if (imbalance > end) end = imbalance;
  return end;
}

function evenText({ numExperts }: ExpertLoad): (value: number) => string {
  return (value) => (Number.isNaN(value) ? "no such expert" : `${value.toFixed(2)} × even · ${formatPercent(value / numExperts)} of the work`);
}

function sentence({ step, topK }: ExpertLoad, layers: readonly LayerSummary[], worst: LayerSummary): string {
  const idle = layers.reduce((sum, { numIdle }) => sum + numIdle, 0);
  const all = layers.reduce((sum, { numExperts }) => sum + numExperts, 0);
  const routed = topK === null ? "" : `, ${topK} experts a token`;
  const unused = idle === 0 ? "Every expert is in use." : `${idle} of ${all} experts get less than a tenth of an even share.`;
  return `Step ${step}${routed}: the busiest is expert ${worst.busiest} of ${layerTitle(worst.layer)} with ${worst.imbalance.toFixed(2)} times an even share. ${unused}`;
}

interface LayerTableProps {
  readonly layers: readonly LayerSummary[];
  readonly chosen: string;
  readonly onChoose: (layer: string) => void;
}

/** The same in words and numbers, for those who cannot or need not see colours. */
function LayerTable({ layers, chosen, onChoose }: LayerTableProps): JSX.Element {
  return (
    <details class="experts-table">
      <summary>As a table</summary>
      <table>
        <thead><tr><th scope="col">Layer</th><th scope="col">Experts</th><th scope="col">Busiest</th><th scope="col">Largest load</th><th scope="col">Hardly used</th></tr></thead>
        <tbody>
          {layers.map(({ layer, numExperts, busiest, imbalance, numIdle }) => (
            <tr key={layer} aria-current={layer === chosen}>
              <th scope="row"><button type="button" class="button is-quiet" onClick={() => onChoose(layer)}>{layer}</button></th>
              <td>{numExperts}</td><td>expert {busiest}</td><td>{imbalance.toFixed(2)} × even</td><td>{numIdle}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}
