/** All resources in one chart as shares of what there is; one chosen alone is shown in its own unit, under its limit. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import { aggregate } from "../chart/index.ts";
import type { Limit, Series } from "../chart/index.ts";
import { samplesOf } from "../chart/series.ts";
import { useSeriesQueries } from "../state/queries.ts";
import type { SeriesQueryOptions } from "../state/series-cache.ts";
import { lastOf } from "../state/append-points.ts";
import type { Page } from "../state/page.ts";
import type { SeriesPart } from "../source/source.ts";
import { Empty } from "../ui/empty.tsx";
import type { RunDetail, RunRow, XKind } from "../wire.ts";
import { LineSection } from "./parts/line-section.tsx";
import { AsOf, ResourceBars, useNow } from "./parts/resources.tsx";
import { scaled } from "./parts/scaled.ts";
import { Section } from "./parts/section.tsx";
import type { Machine, Measure } from "./system-measures.ts";

const PIXELS = 600;

export interface ResourcesProps {
  readonly page: Page;
  readonly run: RunRow;
  readonly machine: Machine;
  readonly x: XKind;
}

/** One device's measure with its limit. */
interface Reading {
  readonly measure: Measure;
  readonly part: SeriesPart;
  /** In the unit of the values; 100 for percentages. */
  readonly limit: number | null;
}

/** What a machine does at this moment; alone in hearing of it each second. */
export function NowSection({ page, detail }: { readonly page: Page; readonly detail: RunDetail }): JSX.Element | null {
  const now = useNow(page, detail);
  const isEmpty = now.machines.every(({ bars }) => bars.length === 0);
  // Less usual readings have charts below.
  if (isEmpty && detail.metrics.some(({ axis }) => axis === "time")) return null;
  if (isEmpty) return <Empty title="No readings of this machine">Readings appear while a recorded training is running.</Empty>;
  return (
    <Section title="In use" tools={<AsOf now={now} />}>
      <div class="section-body">{now.machines.map((machine) => <ResourceBars key={machine.title} {...machine} />)}</div>
    </Section>
  );
}

export function Shares(props: ResourcesProps): JSX.Element {
  const { page, machine: { measures }, x } = props;
  const readings = useReadings(props);
  const [solo, setSolo] = useState<ReadonlySet<string>>(new Set());
  const alone = solo.size === 1 ? measures.find(({ id, isBytes }) => isBytes && solo.has(id)) : undefined;
  const limit = alone === undefined ? null : Math.min(...readings.filter(({ measure }) => measure.id === alone.id).map((one) => one.limit ?? Infinity));
  const series = useMemo(() => measures.map((measure, slot): Series => {
    const own = readings.filter((one) => one.measure.id === measure.id);
    // The others keep their names in the legend, without a line in a unit that is not theirs.
    const isLeftOut = alone !== undefined && alone.id !== measure.id;
    return lineOf(measure, isLeftOut ? [] : own, { slot, isShare: alone === undefined });
  }), [...readings.map(({ part }) => part), ...readings.map((one) => one.limit), alone?.id, measures.length]);
  const limits: Limit[] = limit !== null && Number.isFinite(limit) ? [{ y: limit, label: "physical memory" }] : [];
  return (
    <LineSection page={page} title="Resources" note={alone === undefined ? "share of what there is" : `${alone.label} in bytes`} series={series} height={230} options={{
      xFormat: x,
      yFormat: alone === undefined ? "percent" : "bytes",
      yAlways: alone === undefined ? [0, 1] : [0],
      limits,
      onSolo: setSolo,
    }} />
  );
}

function useReadings({ page, run, machine, x }: ResourcesProps): readonly Reading[] {
  const request = (name: string): SeriesQueryOptions => ({ run: run.id, name, x, axis: machine.axis, range: null, pixels: PIXELS });
  const names = [...new Set(machine.measures.flatMap((measure) => [...measure.names, ...measure.limits.flat()]))];
  const cells = useSeriesQueries(page, names.map(request));
  const partOf = (name: string): SeriesPart | undefined => cells[names.indexOf(name)]?.parts?.[0];
  const sumOf = (parts: readonly string[]): number | null => {
    const values = parts.map((name) => lastOfPart(partOf(name)));
    return values.length === 0 || values.includes(null) ? null : values.reduce<number>((sum, value) => sum + value!, 0);
  };
  return machine.measures.flatMap((measure) => measure.names.flatMap((name, index): Reading[] => {
    const part = partOf(name);
    if (part === undefined) return [];
    const limit = measure.isBytes ? sumOf(measure.limits[index] ?? []) : 100;
    return [{ measure, part, limit }];
  }));
}

/** Of several devices the mean, with a band from the least to the most used. */
function lineOf(measure: Measure, readings: readonly Reading[], { slot, isShare }: { readonly slot: number; readonly isShare: boolean }): Series {
  const members = readings.filter(({ limit }) => !isShare || limit !== null).map(({ part, limit }) => scaled(part.data, isShare ? 1 / limit! : 1));
  const label = readings.length > 1 ? `${measure.label}, mean of ${readings.length}` : measure.label;
  if (members.length <= 1) return { id: measure.id, label, slot, data: members[0] ?? { kind: "raw", x: new Float64Array(0), y: new Float64Array(0) } };
  const { x, mean, low, high } = aggregate(members.map(samplesOf), "minmax");
  return { id: measure.id, label, slot, data: { kind: "raw", x, y: mean }, spread: { low, high } };
}

function lastOfPart(part: SeriesPart | undefined): number | null {
  const last = part === undefined ? null : lastOf(part.data);
  return last === null || !Number.isFinite(last) ? null : last;
}
