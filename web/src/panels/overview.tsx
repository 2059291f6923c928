/** Loss, key metrics, findings, where the time of a step goes, the machine, the latest sample. */

import type { JSX } from "preact";
import { useRef } from "preact/hooks";

import { formatBytes, formatWhole } from "../chart/index.ts";
import type { LineChart } from "../chart/index.ts";
import { SAMPLE_KINDS, useEntries, useRunResponse } from "../state/queries.ts";
import type { Metric } from "../state/metrics.ts";
import type { Page } from "../state/page.ts";
import { Empty } from "../ui/empty.tsx";
import { Menu } from "../ui/menu.tsx";
import type { RunDetail, RunRow } from "../wire.ts";
import type { PanelProps } from "./panel.ts";
import { ChartMenu } from "./parts/chart-card.tsx";
import { ControlCard } from "./parts/control.tsx";
import { FindingList, showFinding } from "./parts/finding-list.tsx";
import { Lineage } from "./parts/lineage.tsx";
import { InternalErrors } from "./parts/internal-errors.tsx";
import { MetricChart } from "./parts/metric-chart.tsx";
import { phaseMeaning, phasesIn, phaseTone } from "./parts/phases.ts";
import { PhaseBar } from "./parts/time-of-steps.tsx";
import { phaseNames, phasesOf } from "./phases-record.ts";
import { AsOf, ResourceBars, useNow } from "./parts/resources.tsx";
import { KeyMetrics } from "./parts/key-metrics.tsx";
import { NoMetrics } from "./parts/no-metrics.tsx";
import { NoRun } from "./parts/no-run.tsx";
import { SampleBody } from "./parts/sample-body.tsx";
import { classesOf, sampleOf } from "./parts/sample-record.ts";

const CHART_HEIGHT = 300;
const MOST_FINDINGS = 5;
const MOST_CHOICES = 24;
const MOST_GPUS = 8;

export function Overview({ page }: PanelProps): JSX.Element {
  const row = page.runs.focus.value;
  if (row === null) return <NoRun page={page} />;
  const detail = page.details.of(row.id).value;
  if (row.problem !== null) return <Empty title={`${row.name} cannot be read`}>{row.problem}</Empty>;
  return (
    <div class="overview">
      <div class="overview-main">
        <Headline page={page} />
        {detail === null ? <div class="vitals" /> : <KeyMetrics page={page} detail={detail} />}
        {detail?.metrics.some(({ name }) => name.startsWith("phase/")) && <StepTimeCard page={page} row={row} />}
      </div>
      <div class="overview-side">
        <Lineage page={page} row={row} />
        <ControlCard key={row.id} page={page} row={row} />
        <FindingsCard page={page} />
        <InternalErrors page={page} />
        {detail !== null && <MachineCard page={page} detail={detail} />}
        <SampleCard page={page} row={row} />
      </div>
    </div>
  );
}

/** The metric that matters most: the one chosen, else the loss, else the first; of several the focused run's own. */
function headlineMetric(page: Page): Metric | undefined {
  const metrics = page.metrics.value;
  const chosen = page.view.text("headline").value;
  const focus = page.runs.focus.value;
  const own = new Set(focus === null ? [] : page.details.of(focus.id).value?.metrics.map(({ name }) => name));
  const ofRole = (wanted: string): Metric | undefined => {
    const found = metrics.filter(({ role }) => role === wanted);
    return found.find(({ name }) => own.has(name)) ?? found[0];
  };
  return metrics.find(({ name }) => name === chosen) ?? ofRole("loss") ?? ofRole("eval_loss") ?? metrics[0];
}

function Headline({ page }: { readonly page: Page }): JSX.Element {
  const chart = useRef<LineChart | null>(null);
  const metric = headlineMetric(page);
  const chosen = page.view.text("headline");
  const choices = page.metrics.value.filter(({ axis }) => axis !== "time")
    .toSorted((one, other) => Number(other.role !== null) - Number(one.role !== null)).slice(0, MOST_CHOICES);
  return (
    <section class="card chart-card headline" aria-label={metric?.name ?? "Headline chart"} data-metric={metric?.name}>
      <header class="card-head">
        <h2>{metric?.name ?? "\u00a0"}</h2>
        {choices.length > 1 && (
          <Menu label="Choose the headline metric" items={choices.map(({ name }) => ({ label: name, isOn: name === metric?.name, run: () => (chosen.value = name) }))}>▾</Menu>
        )}
        <span class="card-space" />
        {metric !== undefined && <ChartMenu page={page} metric={metric} chart={() => chart.current} />}
      </header>
      <div style={{ height: `${CHART_HEIGHT}px` }}>
        {metric !== undefined && <MetricChart key={metric.name} page={page} metric={metric} height={CHART_HEIGHT} onChart={(made) => (chart.current = made)} />}
        {metric === undefined && page.runs.drawn.value.length > 0 && <NoMetrics page={page} />}
      </div>
      {metric?.role === "loss" && <PhaseKey page={page} />}
    </section>
  );
}

/** Which colour of the strip under the loss is which phase. */
function PhaseKey({ page }: { readonly page: Page }): JSX.Element | null {
  const phases = phasesIn(page.marks.onAxis(page.view.x.value));
  if (phases.length === 0) return null;
  return <p class="phase-key">{phases.map((phase) => <span key={phase} class={`is-${phaseTone(phase)}`} title={phaseMeaning(phase) ?? undefined}>{phase}</span>)}</p>;
}

/** Where the newest steps' time went; the performance panel has all of them. */
function StepTimeCard({ page, row }: { readonly page: Page; readonly row: RunRow }): JSX.Element | null {
  const { list } = useEntries(page, "phases", row.id, { limit: 1 });
  const phases = list?.entries.flatMap((entry) => phasesOf(entry) ?? []).at(-1);
  if (phases === undefined) return null;
  return (
    <section class="card" aria-label="Time of a step">
      <header class="card-head">
        <h2>Time of a step</h2>
        <span class="card-space" />
        <button type="button" class="button is-quiet" onClick={() => page.open("run", "performance")}>all steps</button>
      </header>
      <div class="section-body"><PhaseBar phases={phases} names={phaseNames([phases])} /></div>
    </section>
  );
}

function FindingsCard({ page }: { readonly page: Page }): JSX.Element {
  const findings = page.findings.all.value;
  const shown = (findings ?? []).slice(0, MOST_FINDINGS);
  const choose = (finding: (typeof shown)[number]): void => {
    if (finding.series !== null) page.view.text("headline").value = finding.series;
    showFinding(page, finding, "run");
  };
  return (
    <section class={`card${shown.some(({ severity, isOpen }) => isOpen && severity === "error") ? " has-errors" : ""}`} aria-label="Findings">
      <header class="card-head">
        <h2>Findings</h2>
        <span class="card-space" />
        {findings !== null && findings.length > shown.length && (
          <button type="button" class="button is-quiet" onClick={() => page.open("run", "findings")}>all {findings.length}</button>
        )}
      </header>
      {shown.length > 0 ? <FindingList page={page} findings={shown} onChoose={choose} /> : <p class="card-empty">{findings === null ? "Applying the rules …" : "No findings."}</p>}
    </section>
  );
}

function MachineCard({ page, detail }: { readonly page: Page; readonly detail: RunDetail }): JSX.Element {
  const now = useNow(page, detail, MOST_GPUS);
  const first = now.machines[0]!;
  return (
    <section class="card" aria-label="Machine">
      <header class="card-head"><h2>Machine</h2><span class="card-space" /><AsOf now={now} /></header>
      {first.bars.length > 0 && <div class="resources"><ResourceBars {...first} /></div>}
      <p class="hardware">{hardwareText(detail) || "Nothing was recorded about the machine."}</p>
    </section>
  );
}

/** Such as `2 × NVIDIA H100 (79.6 GiB) · host · 32 cores · Python 3.12`. */
export function hardwareText({ hardware, facts }: RunDetail): string {
  const gpus = new Map<string, number>();
  for (const { name, memory } of hardware) {
    const text = `${String(name ?? "GPU")}${typeof memory === "number" ? ` (${formatBytes(memory)})` : ""}`;
    gpus.set(text, (gpus.get(text) ?? 0) + 1);
  }
  const cores = facts["cpu_count"];
  const worldSize = facts["world_size"];
  return [
    ...[...gpus].map(([text, count]) => (count > 1 ? `${count} × ${text}` : text)),
    typeof worldSize === "number" && worldSize > 1 ? `${formatWhole(worldSize)} ranks` : null,
    typeof facts["host"] === "string" ? facts["host"] : null,
    typeof cores === "number" ? `${cores} cores` : null,
    typeof facts["python"] === "string" ? `Python ${facts["python"]}` : null,
  ].filter((part) => part !== null).join(" · ");
}

/** The text, picture or sound that was logged last; the samples panel has all samples. */
function SampleCard({ page, row }: { readonly page: Page; readonly row: RunRow }): JSX.Element | null {
  const { response } = useRunResponse(page, "samples", row.id, undefined, SAMPLE_KINDS);
  const samples = (response?.entries ?? []).flatMap((entry) => sampleOf(entry) ?? []).filter(({ text, mediaType }) => text !== null || /^(image|audio)\//.test(mediaType));
  const sample = samples.toSorted((one, other) => (one.t ?? 0) - (other.t ?? 0)).at(-1);
  if (sample === undefined) return null;
  return (
    <section class="card" aria-label="Latest sample">
      <header class="card-head">
        <h2>{sample.name}</h2>
        <span class="card-note">{sample.step === null ? "" : `step ${formatWhole(sample.step)}`}</span>
        <span class="card-space" />
        <button type="button" class="button is-quiet" onClick={() => page.open("run", "samples")}>all samples</button>
      </header>
      <div class="section-body"><SampleBody page={page} run={row.id} sample={sample} classes={classesOf([sample])} /></div>
    </section>
  );
}
