/** The speed, the possible speed, and where the time goes. */

import type { JSX } from "preact";

import { createBars, createStackedBar, formatCount, formatNumber } from "../chart/index.ts";
import type { Bar, Segment } from "../chart/index.ts";
import { useSeriesQueries } from "../state/queries.ts";
import { lastOf } from "../state/append-points.ts";
import type { Page } from "../state/page.ts";
import { Mount } from "../ui/mount.tsx";
import type { RunDetail } from "../wire.ts";
import type { RunSection, SectionProps } from "./panel.ts";
import { ChartGrid, chartOf } from "./parts/run-charts.tsx";
import type { ChartOfRun } from "./parts/run-charts.tsx";
import { Section } from "./parts/section.tsx";
import { flopText, speedOf } from "./parts/speed.ts";
import type { Speed } from "./parts/speed.ts";
import { TimeOfSteps, usePhaseRecords } from "./parts/time-of-steps.tsx";
import { TimelineSection, useTimeline } from "./parts/timeline.tsx";
import "./performance.css";

const CHARTS: readonly RegExp[] = [
  /(^|\/)sol$/,
  /(^|[/_])mfu$/,
  /(tokens|samples|images|steps)_per_s(ec|econd)?$/,
  /(^|\/)duration_ms$/,
  /^data\/wait_ms$/,
];

export const section: RunSection = {
  order: 90,
  id: "performance",
  title: "Performance",
  shortcut: "w",
  component: Performance,
  hasContent: (_, detail) =>
    detail.sol !== null ||
    detail.recorded.some((kind) => ["phases", "span", "timeline"].includes(kind)) ||
    chartsOfSpeed(detail).length > 0,
};

function Performance({ page, run, detail }: SectionProps): JSX.Element {
  const records = usePhaseRecords({ page, run });
  const timeline = useTimeline(page, run);
  const charts = chartsOfSpeed(detail);
  return (
    <div class="pane">
      {detail.sol !== null && <LightSpeed page={page} detail={detail} />}
      {records !== null && records.length > 0 && (
        <TimeOfSteps page={page} run={run} records={records} />
      )}
      {timeline !== null && timeline.spans.length + timeline.stretches.length > 0 && (
        <TimelineSection page={page} run={run} timeline={timeline} />
      )}
      <ChartGrid page={page} run={run.id} charts={charts} of="Performance" />
    </div>
  );
}

function chartsOfSpeed(detail: RunDetail): readonly ChartOfRun[] {
  return CHARTS.flatMap((pattern) =>
    detail.metrics.filter(({ name, axis }) => axis === "step" && pattern.test(name)),
  ).map((row) => chartOf(row));
}

/** The newest value of a metric, as it grows. */
function useLatest(page: Page, run: string, name: string | undefined): number | null {
  const cells = useSeriesQueries(
    page,
    name === undefined ? [] : [{ run, name, x: "step", axis: "step", range: null, pixels: 300 }],
  );
  const data = cells[0]?.parts?.[0]?.data;
  return data === undefined ? null : lastOf(data);
}

function LightSpeed({
  page,
  detail,
}: {
  readonly page: Page;
  readonly detail: RunDetail;
}): JSX.Element {
  const nameOf = (pattern: RegExp): string | undefined =>
    detail.metrics.find(({ name, axis }) => axis === "step" && pattern.test(name))?.name;
  const throughput = useLatest(page, detail.row.id, detail.roles.throughput);
  const sol = useLatest(page, detail.row.id, nameOf(CHARTS[0]!));
  const mfu = useLatest(page, detail.row.id, nameOf(CHARTS[1]!));
  const speed = speedOf(detail.sol ?? {}, { throughput, sol, mfu });
  const bars = barsOf(speed);
  const segments = speed.work.map(
    ({ label, flop }, slot): Segment => ({ label, value: flop, text: flopText(flop), slot }),
  );
  return (
    <div class="light">
      <Section title="Speed of light" note={speed.device ?? undefined}>
        <div class="section-body">
          <Mount
            height="auto"
            create={(root) => createBars(root, bars)}
            update={(widget) => widget.update(bars)}
          />
          {speed.note !== null && <p class="card-note light-note">{speed.note}</p>}
        </div>
      </Section>
      <Section
        title="FLOPs per token"
        note={flopText(speed.work.reduce((sum, { flop }) => sum + flop, 0))}
      >
        <div class="section-body">
          <Mount
            height="auto"
            create={(root) => createStackedBar(root, { segments })}
            update={(widget) => widget.update({ segments })}
          />
          <dl class="facts light-peaks">
            {speed.peaks.map(({ label, tflops }) => (
              <div key={label}>
                <dt>{label}</dt>
                <dd>{formatNumber(tflops)} TFLOP/s</dd>
              </div>
            ))}
          </dl>
        </div>
      </Section>
    </div>
  );
}

function barsOf({ sol, mfu, throughput, possible, measured }: Speed): readonly Bar[] {
  const bars: Bar[] = [];
  if (sol !== null)
    bars.push({
      label: "SOL",
      share: sol / 100,
      text: `${sol.toFixed(1)}\u00a0% of what the hardware could do`,
    });
  if (mfu !== null)
    bars.push({
      label: "MFU",
      share: mfu / 100,
      text: `${mfu.toFixed(1)}\u00a0% of the peak in useful work`,
    });
  if (throughput !== null)
    bars.push({
      label: "Tokens/s",
      share: possible === null ? null : throughput / possible,
      text: `${formatCount(throughput)}/s${possible === null ? "" : ` of ${formatCount(possible)}/s`}`,
    });
  if (measured !== null)
    bars.push({
      label: "Peak",
      share: measured.share,
      text: `${formatNumber(measured.tflops)} of ${formatNumber(measured.spec)} TFLOP/s measured here`,
    });
  return bars;
}
