/** The speed, the possible speed, and where the time goes. */

import type { JSX } from "preact";

import { createBars, createStackedBar, formatCount, formatNumber } from "../chart/index.ts";
import type { Bar, Segment } from "../chart/index.ts";
import { useSeriesQueries } from "../state/queries.ts";
import { lastOf } from "../state/append-points.ts";
import type { Metric } from "../state/metrics.ts";
import type { Page } from "../state/page.ts";
import { Empty } from "../ui/empty.tsx";
import { Mount } from "../ui/mount.tsx";
import type { RunDetail, RunRow } from "../wire.ts";
import type { PanelProps, Section as RunSection } from "./panel.ts";
import { ChartCard } from "./parts/chart-card.tsx";
import { FocusedRun, RunPicker } from "./parts/run-picker.tsx";
import { Section } from "./parts/section.tsx";
import { flopText, speedOf } from "./parts/speed.ts";
import type { Speed } from "./parts/speed.ts";
import { TimeOfSteps, usePhaseRecords } from "./parts/time-of-steps.tsx";
import { TimelineSection, useTimeline } from "./parts/timeline.tsx";
import "./performance.css";

const CHART_HEIGHT = 190;
const CHARTS: readonly RegExp[] = [/(^|\/)sol$/, /(^|[/_])mfu$/, /(tokens|samples|images|steps)_per_s(ec|econd)?$/, /(^|\/)duration_ms$/, /^data\/wait_ms$/];

export const section: RunSection = { order: 40, id: "performance", title: "Performance", shortcut: "w", component: Performance, hasContent: () => true };

function Performance({ page }: PanelProps): JSX.Element {
  return <FocusedRun page={page}>{(run) => <PerformanceOf key={run.id} page={page} run={run} />}</FocusedRun>;
}

function PerformanceOf({ page, run }: { readonly page: Page; readonly run: RunRow }): JSX.Element {
  const detail = page.details.of(run.id).value;
  const records = usePhaseRecords({ page, run });
  const timeline = useTimeline(page, run);
  const metrics = CHARTS.flatMap((pattern) => page.metrics.value.filter(({ name, axis }) => axis === "step" && pattern.test(name)));
  const isKnown = detail !== null && records !== null && timeline !== null;
  const hasTimeline = timeline !== null && (timeline.spans.length > 0 || timeline.stretches.length > 0);
  const isEmpty = isKnown && records.length === 0 && !hasTimeline && detail.sol === null && metrics.length === 0;
  return (
    <div class="pane">
      <div class="pane-bar"><RunPicker page={page} /></div>
      {isEmpty && (
        <Empty title="No timings were recorded" code={'with run.phase("data"):\n    batch = next(batches)'}>
          Time the phases of a step to see where its time goes; log_sol_estimate adds how fast the step could be.
        </Empty>
      )}
      {detail !== null && detail.sol !== null && <LightSpeed page={page} detail={detail} />}
      {records !== null && records.length > 0 && <TimeOfSteps page={page} run={run} records={records} />}
      {hasTimeline && <TimelineSection page={page} run={run} timeline={timeline} />}
      <Charts page={page} metrics={metrics} />
    </div>
  );
}

function Charts({ page, metrics }: { readonly page: Page; readonly metrics: readonly Metric[] }): JSX.Element | null {
  if (metrics.length === 0) return null;
  return <div class="chart-grid">{metrics.map((metric) => <ChartCard key={metric.name} page={page} metric={metric} height={CHART_HEIGHT} />)}</div>;
}

/** The newest value of a metric, as it grows. */
function useLatest(page: Page, run: string, name: string | undefined): number | null {
  const cells = useSeriesQueries(page, name === undefined ? [] : [{ run, name, x: "step", axis: "step", range: null, pixels: 300 }]);
  const data = cells[0]?.parts?.[0]?.data;
  return data === undefined ? null : lastOf(data);
}

function LightSpeed({ page, detail }: { readonly page: Page; readonly detail: RunDetail }): JSX.Element {
  const nameOf = (pattern: RegExp): string | undefined => detail.metrics.find(({ name, axis }) => axis === "step" && pattern.test(name))?.name;
  const throughput = useLatest(page, detail.row.id, detail.roles["throughput"]);
  const sol = useLatest(page, detail.row.id, nameOf(CHARTS[0]!));
  const mfu = useLatest(page, detail.row.id, nameOf(CHARTS[1]!));
  const speed = speedOf(detail.sol ?? {}, { throughput, sol, mfu });
  const bars = barsOf(speed);
  const segments = speed.work.map(({ label, flop }, slot): Segment => ({ label, value: flop, text: flopText(flop), slot }));
  return (
    <div class="light">
      <Section title="Speed of light" note={speed.device ?? undefined}>
        <div class="section-body">
          <Mount height="auto" create={(root) => createBars(root, bars)} update={(widget) => widget.update(bars)} />
          {speed.note !== null && <p class="card-note light-note">{speed.note}</p>}
        </div>
      </Section>
      <Section title="FLOPs per token" note={flopText(speed.work.reduce((sum, { flop }) => sum + flop, 0))}>
        <div class="section-body">
          <Mount height="auto" create={(root) => createStackedBar(root, { segments })} update={(widget) => widget.update({ segments })} />
          <dl class="facts light-peaks">
            {speed.peaks.map(({ label, tflops }) => <div key={label}><dt>{label}</dt><dd>{formatNumber(tflops)} TFLOP/s</dd></div>)}
          </dl>
        </div>
      </Section>
    </div>
  );
}

function barsOf({ sol, mfu, throughput, possible, measured }: Speed): readonly Bar[] {
  const bars: Bar[] = [];
  if (sol !== null) bars.push({ label: "SOL", share: sol / 100, text: `${sol.toFixed(1)}\u00a0% of what the hardware could do` });
  if (mfu !== null) bars.push({ label: "MFU", share: mfu / 100, text: `${mfu.toFixed(1)}\u00a0% of the peak in useful work` });
  if (throughput !== null) bars.push({ label: "Tokens/s", share: possible === null ? null : throughput / possible, text: `${formatCount(throughput)}/s${possible === null ? "" : ` of ${formatCount(possible)}/s`}` });
  if (measured !== null) bars.push({ label: "Peak", share: measured.share, text: `${formatNumber(measured.tflops)} of ${formatNumber(measured.spec)} TFLOP/s measured here` });
  return bars;
}
