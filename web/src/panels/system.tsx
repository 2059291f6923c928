/** Processors, memory, GPUs, disk and network, now and over the run. */

import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";

import { aggregate, createLineChart, createStackedBar, formatBytes } from "../chart/index.ts";
import type {
  Limit,
  LineChart,
  LineOptions,
  Mark,
  Segment,
  Series,
  SeriesData,
} from "../chart/index.ts";
import { samplesOf } from "../chart/series.ts";
import { useSeriesQueries } from "../state/queries.ts";
import type { SeriesQueryOptions } from "../state/series-cache.ts";
import type { Finding } from "../state/findings.ts";
import { lastOf } from "../state/append-points.ts";
import type { PlacedMark } from "../state/marks.ts";
import type { Page } from "../state/page.ts";
import type { SeriesPart } from "../source/source.ts";
import { Mount } from "../ui/mount.tsx";
import { Tabs } from "../ui/tabs.tsx";
import type { RunDetail, RunRow, XKind } from "../wire.ts";
import type { RunSection, SectionProps } from "./panel.ts";
import { markSeverity } from "./parts/chart-marks.ts";
import { AsOf, ResourceBars, useNow } from "./parts/resources.tsx";
import { RankMap } from "./parts/rank-map.tsx";
import { Section } from "./parts/section.tsx";
import { chartsWith, GPU_CHARTS, HOST_CHARTS, machineOf } from "./system-measures.ts";
import type { Machine, MachineChart, Measure } from "./system-measures.ts";
import "./system.css";

const PIXELS = 600;
const made = new WeakMap<SeriesData, Map<number, SeriesData>>();

export const section: RunSection = {
  order: 80,
  id: "system",
  title: "System",
  shortcut: "m",
  component: System,
  hasContent: (_, { metrics }) =>
    metrics.some(
      ({ axis, name, ranks }) =>
        axis === "time" || /^(resources|memory)\//.test(name) || ranks.length > 1,
    ),
};

function System({ page, run, detail }: SectionProps): JSX.Element {
  const machine = machineOf(detail.metrics);
  return (
    <div class="pane">
      <div class="machine-now">
        <NowSection page={page} detail={detail} />
        {machine.measures.length > 0 && (
          <Shares page={page} run={run} machine={machine} x={axisOf(page, machine)} />
        )}
      </div>
      <Gpus page={page} run={run} detail={detail} machine={machine} />
      <div class="pane-grid">
        <DeviceCharts
          page={page}
          run={run}
          detail={detail}
          machine={machine}
          charts={HOST_CHARTS}
          devices={HOST}
          titlePrefix=""
        />
      </div>
      <MemorySegments page={page} run={run} detail={detail} />
      <Ranks page={page} run={run} detail={detail} />
    </div>
  );
}

/** Along clock time where the charts are, else along the time since the start. */
function axisOf(page: Page, { axis }: Machine): XKind {
  if (axis === "epoch") return "epoch";
  return page.view.x.value === "wall" ? "wall" : "relative";
}

interface DeviceProps {
  readonly page: Page;
  readonly run: RunRow;
  readonly detail: RunDetail;
  readonly machine: Machine;
}

interface Device {
  readonly prefix: string;
  readonly label: string;
  readonly slot: number;
}

const HOST: readonly Device[] = [{ prefix: "system/", label: "", slot: 0 }];

function Gpus({ page, ...props }: DeviceProps): JSX.Element | null {
  const { gpus } = props.machine;
  const chosen = page.view.text("gpu", "all");
  if (gpus.length === 0) return null;
  const active = gpus.includes(chosen.value) && gpus.length > 1 ? chosen.value : "all";
  const tabs = [
    { id: "all", label: `All ${gpus.length} GPUs` },
    ...gpus.map((gpu) => ({ id: gpu, label: `GPU ${gpu}` })),
  ];
  const devices = (active === "all" ? gpus : [active]).map((gpu) => ({
    prefix: `gpu/${gpu}/`,
    label: `GPU ${gpu}`,
    slot: gpus.indexOf(gpu),
  }));
  return (
    <>
      {gpus.length > 1 && (
        <Tabs
          label="GPUs"
          tabs={tabs}
          active={active}
          panelId="system-gpus"
          onChange={(id) => (chosen.value = id)}
        />
      )}
      <div id="system-gpus" class="pane-grid">
        <DeviceCharts
          page={page}
          {...props}
          charts={GPU_CHARTS}
          devices={devices}
          titlePrefix="GPU · "
        />
      </div>
    </>
  );
}

function DeviceCharts({
  charts,
  titlePrefix,
  ...props
}: DeviceProps & {
  readonly charts: readonly MachineChart[];
  readonly devices: readonly Device[];
  readonly titlePrefix: string;
}): JSX.Element {
  const names = new Set(props.detail.metrics.map(({ name }) => name));
  const shown = chartsWith(
    charts,
    props.devices.map(({ prefix }) => prefix),
    names,
  );
  return (
    <>
      {shown.map((chart) => (
        <DeviceChart
          key={chart.title}
          {...props}
          chart={chart}
          names={names}
          title={titlePrefix + chart.title}
        />
      ))}
    </>
  );
}

interface DeviceChartProps extends DeviceProps {
  readonly chart: MachineChart;
  readonly devices: readonly Device[];
  readonly names: ReadonlySet<string>;
  readonly title: string;
}

function DeviceChart({
  page,
  run,
  machine,
  chart,
  devices,
  names,
  title,
}: DeviceChartProps): JSX.Element {
  const x = axisOf(page, machine);
  const wanted = devices
    .flatMap((device) =>
      Object.entries(chart.fields).map(([field, label], index) => ({
        device,
        label,
        name: device.prefix + field,
        index,
      })),
    )
    .filter(({ name }) => names.has(name));
  const request = (name: string): SeriesQueryOptions => ({
    run: run.id,
    name,
    x,
    axis: "time",
    ranks: "all",
    range: null,
    pixels: PIXELS,
  });
  const cells = useSeriesQueries(
    page,
    wanted.map(({ name }) => request(name)),
  );
  const limitNames = devices
    .map(({ prefix }) => (chart.limit?.fields ?? []).map((field) => prefix + field))
    .filter((ofDevice) => ofDevice.length > 0 && ofDevice.every((name) => names.has(name)));
  const limitCells = useSeriesQueries(page, limitNames.flat().map(request));
  const limitOf = (ofDevice: readonly string[]): number =>
    ofDevice.reduce(
      (sum, name) => sum + (lastValue(limitCells[limitNames.flat().indexOf(name)]?.parts) ?? NaN),
      0,
    );
  const series = wanted.flatMap(({ device, label, name, index }, at) =>
    (cells[at]?.parts ?? []).map(
      ({ head, data }): Series => ({
        id: `${name}#${head.rank}`,
        label:
          [device.label, label, head.rank > 0 ? `rank ${head.rank}` : ""]
            .filter((word) => word !== "")
            .join(" ") || title,
        slot: device.slot + index * devices.length + head.rank,
        data: scaled(data, chart.factor),
      }),
    ),
  );
  const limit = Math.min(...limitNames.map(limitOf)) * chart.factor;
  return (
    <LineSection
      page={page}
      title={title}
      series={series}
      options={{
        xFormat: x,
        yFormat: chart.format,
        yAlways: chart.always,
        limits:
          Number.isFinite(limit) && limit > 0 ? [{ y: limit, label: chart.limit!.label }] : [],
        marks:
          x === "epoch"
            ? []
            : [
                ...throttleMarks(page.marks.onAxis(x), devices),
                ...deviceMarks(page.findings.all.value ?? [], devices, { x, created: run.created }),
              ],
      }}
    />
  );
}

/** Where these GPUs began to slow themselves down. */
function throttleMarks(marks: readonly PlacedMark[], devices: readonly Device[]): readonly Mark[] {
  return marks.flatMap(({ kind, label, x, gpu }): Mark[] => {
    if (kind !== "throttle" || !devices.some(({ prefix }) => prefix === `gpu/${gpu}/`)) return [];
    // A power cap is how a busy GPU works; heat is a fault.
    return [
      { x, kind: "throttle", label, severity: label.includes("thermal") ? "critical" : "warning" },
    ];
  });
}

/** Where findings about these devices were made, throttling above all. */
function deviceMarks(
  findings: readonly Finding[],
  devices: readonly Device[],
  { x, created }: { readonly x: XKind; readonly created: number | null },
): readonly Mark[] {
  return findings.flatMap(({ series, t, sentence, severity }): Mark[] => {
    if (t === null || !devices.some(({ prefix }) => series?.startsWith(prefix))) return [];
    return [
      {
        x: x === "wall" ? t : t - (created ?? t),
        kind: "finding",
        label: sentence,
        severity: markSeverity(severity),
      },
    ];
  });
}

/** What memory is free is no fault: colours of their own for the purposes that the program itself names. */
const SEGMENT_SLOTS: Readonly<Record<string, number>> = {
  weights: 0,
  gradients: 1,
  optimizer: 2,
  lora: 3,
  activations: 4,
  qlora: 6,
  reserved: 7,
  system: 8,
  other: 10,
  free: 11,
};

const OWN_SLOTS = [9, 5, 6, 3];

function segmentSlot(label: string, before: readonly Segment[]): number {
  const numOwn = before.filter((segment) => SEGMENT_SLOTS[segment.label] === undefined).length;
  return SEGMENT_SLOTS[label] ?? OWN_SLOTS[numOwn % OWN_SLOTS.length]!;
}

/** The latest word of the training on what its memory holds. */
function MemorySegments({ page, run, detail }: Omit<DeviceProps, "machine">): JSX.Element | null {
  const names = detail.metrics
    .filter(({ name, axis }) => axis === "step" && name.startsWith("memory/"))
    .map(({ name }) => name);
  const cells = useSeriesQueries(
    page,
    names.map(
      (name): SeriesQueryOptions => ({
        run: run.id,
        name,
        x: "step",
        axis: "step",
        range: null,
        pixels: PIXELS,
      }),
    ),
  );
  if (names.length === 0) return null;
  const groups = new Map<string, Segment[]>();
  names.forEach((name, index) => {
    const value = lastValue(cells[index]?.parts);
    const [, ...path] = name.split("/");
    const kind = path.pop() ?? "";
    const gpu = /^gpu\d+$/.test(path[0] ?? "") ? path.shift()! : "";
    const title = [kind, gpu.replace("gpu", "GPU ")].filter((word) => word !== "").join(", ");
    const segments = groups.get(title) ?? [];
    if (value !== null && value > 0)
      segments.push({
        label: path.join("/"),
        value,
        text: formatBytes(value),
        slot: segmentSlot(path.join("/"), segments),
      });
    groups.set(title, segments);
  });
  const known = [...groups].filter(([, segments]) => segments.length > 0);
  return (
    <Section title="Memory by purpose" note="as the training told it last" isWide>
      <div class="section-body memory-segments">
        {known.map(([title, segments]) => (
          <div key={title}>
            <h4>{title}</h4>
            <Mount
              height="auto"
              create={(root) => createStackedBar(root, { segments })}
              update={(bar) => bar.update({ segments })}
            />
          </div>
        ))}
      </div>
    </Section>
  );
}

function lastValue(parts: readonly SeriesPart[] | null | undefined): number | null {
  const data = parts?.[0]?.data;
  return data === undefined ? null : lastOf(data);
}

/** More ranks than this are a heat map: that many lines tell nothing apart. */
const MOST_RANK_LINES = 8;
const RANK_MAP_HEIGHT = 260;

/** With several ranks: which one holds the others up. */
function Ranks({ page, run, detail }: Omit<DeviceProps, "machine">): JSX.Element | null {
  const loss = detail.roles.loss;
  const wanted = detail.metrics.filter(
    ({ name, axis, ranks }) =>
      ranks.length > 1 && axis === "step" && [...RANK_TIMES, loss].includes(name),
  );
  const few = wanted.filter(
    ({ name, ranks }) => ranks.length <= MOST_RANK_LINES && RANK_TIMES.includes(name),
  );
  const cells = useSeriesQueries(
    page,
    few.map(
      ({ name }): SeriesQueryOptions => ({
        run: run.id,
        name,
        x: "step",
        axis: "step",
        ranks: "all",
        range: null,
        pixels: PIXELS,
      }),
    ),
  );
  if (wanted.length === 0) return null;
  return (
    <div class="pane-grid">
      {few.map(({ name }, index) => (
        <LineSection
          key={name}
          page={page}
          title={`${name} by rank`}
          options={{ xFormat: "step", xName: "Step", outliers: "clip" }}
          series={(cells[index]?.parts ?? []).map(({ head, data }) => ({
            id: `${name}#${head.rank}`,
            label: `rank ${head.rank}`,
            slot: head.rank,
            data,
          }))}
        />
      ))}
      {wanted
        .filter((metric) => !few.includes(metric))
        .map((metric) => (
          <Section
            key={metric.name}
            title={`${metric.name} by rank`}
            note={`${metric.ranks.length} ranks`}
          >
            <RankMap page={page} run={run.id} metric={metric} height={RANK_MAP_HEIGHT} />
          </Section>
        ))}
    </div>
  );
}

const RANK_TIMES: readonly string[] = ["train/duration_ms", "data/wait_ms"];

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
export function NowSection({
  page,
  detail,
}: {
  readonly page: Page;
  readonly detail: RunDetail;
}): JSX.Element | null {
  const now = useNow(page, detail);
  if (now.machines.every(({ bars }) => bars.length === 0)) return null;
  return (
    <Section title="In use" tools={<AsOf now={now} />}>
      <div class="section-body">
        {now.machines.map((machine) => (
          <ResourceBars key={machine.title} {...machine} />
        ))}
      </div>
    </Section>
  );
}

export function Shares(props: ResourcesProps): JSX.Element {
  const {
    page,
    machine: { measures },
    x,
  } = props;
  const readings = useReadings(props);
  const [solo, setSolo] = useState<ReadonlySet<string>>(new Set());
  const alone =
    solo.size === 1 ? measures.find(({ id, isBytes }) => isBytes && solo.has(id)) : undefined;
  const limit =
    alone === undefined
      ? null
      : Math.min(
          ...readings
            .filter(({ measure }) => measure.id === alone.id)
            .map((one) => one.limit ?? Infinity),
        );
  const series = useMemo(
    () =>
      measures.map((measure, slot): Series => {
        const own = readings.filter((one) => one.measure.id === measure.id);
        // The others keep their names in the legend, without a line in a unit that is not theirs.
        const isLeftOut = alone !== undefined && alone.id !== measure.id;
        return lineOf(measure, isLeftOut ? [] : own, { slot, isShare: alone === undefined });
      }),
    [
      ...readings.map(({ part }) => part),
      ...readings.map((one) => one.limit),
      alone?.id,
      measures.length,
    ],
  );
  const limits: Limit[] =
    limit !== null && Number.isFinite(limit) ? [{ y: limit, label: "physical memory" }] : [];
  return (
    <LineSection
      page={page}
      title="Resources"
      note={alone === undefined ? "share of what there is" : `${alone.label} in bytes`}
      series={series}
      height={230}
      options={{
        xFormat: x,
        yFormat: alone === undefined ? "percent" : "bytes",
        yAlways: alone === undefined ? [0, 1] : [0],
        limits,
        onSolo: setSolo,
      }}
    />
  );
}

function useReadings({ page, run, machine, x }: ResourcesProps): readonly Reading[] {
  const request = (name: string): SeriesQueryOptions => ({
    run: run.id,
    name,
    x,
    axis: machine.axis,
    range: null,
    pixels: PIXELS,
  });
  const names = [
    ...new Set(machine.measures.flatMap((measure) => [...measure.names, ...measure.limits.flat()])),
  ];
  const cells = useSeriesQueries(page, names.map(request));
  const partOf = (name: string): SeriesPart | undefined => cells[names.indexOf(name)]?.parts?.[0];
  const sumOf = (parts: readonly string[]): number | null => {
    const values = parts.map((name) => lastOfPart(partOf(name)));
    return values.length === 0 || values.includes(null)
      ? null
      : values.reduce<number>((sum, value) => sum + value!, 0);
  };
  return machine.measures.flatMap((measure) =>
    measure.names.flatMap((name, index): Reading[] => {
      const part = partOf(name);
      if (part === undefined) return [];
      const limit = measure.isBytes ? sumOf(measure.limits[index] ?? []) : 100;
      return [{ measure, part, limit }];
    }),
  );
}

/** Of several devices the mean, with a band from the least to the most used. */
function lineOf(
  measure: Measure,
  readings: readonly Reading[],
  { slot, isShare }: { readonly slot: number; readonly isShare: boolean },
): Series {
  const members = readings
    .filter(({ limit }) => !isShare || limit !== null)
    .map(({ part, limit }) => scaled(part.data, isShare ? 1 / limit! : 1));
  const label =
    readings.length > 1 ? `${measure.label}, mean of ${readings.length}` : measure.label;
  if (members.length <= 1)
    return {
      id: measure.id,
      label,
      slot,
      data: members[0] ?? { kind: "raw", x: new Float64Array(0), y: new Float64Array(0) },
    };
  const { x, mean, low, high } = aggregate(members.map(samplesOf), "minmax");
  return { id: measure.id, label, slot, data: { kind: "raw", x, y: mean }, spread: { low, high } };
}

function lastOfPart(part: SeriesPart | undefined): number | null {
  const last = part === undefined ? null : lastOf(part.data);
  return last === null || !Number.isFinite(last) ? null : last;
}

interface LineSectionProps {
  readonly page: Page;
  readonly title: string;
  readonly note?: string | undefined;
  readonly series: readonly Series[];
  readonly options: Partial<LineOptions>;
  readonly height?: number;
}

function LineSection({
  page,
  title,
  note,
  series,
  options,
  height = 180,
}: LineSectionProps): JSX.Element {
  const before = useRef<{ readonly series: readonly Series[]; readonly text: string }>({
    series: [],
    text: "",
  });
  const all: Partial<LineOptions> = {
    title,
    sync: page.sync,
    legend: series.length > 1 ? "lines" : null,
    ...options,
  };
  const show = (chart: LineChart): void => {
    const text = JSON.stringify(all);
    const isSame =
      before.current.series.length === series.length &&
      series.every(
        ({ id, data, label }, index) =>
          before.current.series[index]?.data === data &&
          before.current.series[index].id === id &&
          before.current.series[index].label === label,
      );
    if (text !== before.current.text) chart.setOptions(all);
    if (!isSame) chart.setSeries(series);
    before.current = { series, text };
  };
  // One dot says little, and nothing of whether more is to come.
  const isLone =
    series.length > 0 &&
    series.every(({ data }) => (data.kind === "raw" ? data.x : data.lastX).length < 2);
  return (
    <Section title={title} note={isLone ? "only one record" : note}>
      <Mount
        height={height}
        queue={page.lazy}
        create={(root) => {
          before.current = { series: [], text: "" };
          return createLineChart(root, all);
        }}
        update={show}
      />
    </Section>
  );
}

/** A series in another unit; the same result for the same series, so that charts see that nothing changed. */
export function scaled(data: SeriesData, factor: number): SeriesData {
  if (factor === 1) return data;
  const known = made.get(data) ?? new Map<number, SeriesData>();
  made.set(data, known);
  const found = known.get(factor) ?? multiplied(data, factor);
  known.set(factor, found);
  return found;
}

function multiplied(data: SeriesData, factor: number): SeriesData {
  const times = (values: Float64Array): Float64Array => values.map((value) => value * factor);
  if (data.kind === "raw") return { ...data, y: times(data.y) };
  return {
    ...data,
    last: data.last === null ? null : data.last * factor,
    mean: times(data.mean),
    min: times(data.min),
    max: times(data.max),
  };
}
