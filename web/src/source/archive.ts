/**
 * Answers that lie in the page itself: a saved file asks nobody. The answers are those of the server, kept as they were; only what depends on the
 * view, the range and the axis of a series, is worked out here.
 */

import { signal } from "@preact/signals";

import type { SeriesData } from "../chart/index.ts";
import { lowerBound } from "../chart/series.ts";
import { ema, smoothingWeight, smoothSlices } from "../chart/smooth.ts";
import { ENTRY_KINDS, WIRE_VERSION } from "../wire.ts";
import type {
  ArchiveBody,
  EntryKind,
  EntryList,
  EntryRow,
  GroupTables,
  Importance,
  Knots,
  MetricList,
  MetricRow,
  RunParams,
  RunResponses,
  RunRow,
  SampleList,
  SeriesHead,
  XKind,
} from "../wire.ts";
import { configValue } from "../state/config.ts";
import { groupBy } from "../state/group-by.ts";
import { byKeys, groupName } from "../state/group-keys.ts";
import { groupOf } from "../state/metrics.ts";
import { projectRows } from "../state/projects.ts";
import { ordered, searchTextsOf } from "../state/run-rows.ts";
import { isXKind } from "../state/view.ts";
import { compileFilter } from "../ui/filter.ts";
import { decodeSeries } from "./decode.ts";
import { MISSING_BLOB, SourceError } from "./source.ts";
import type {
  Connection,
  RunChoice,
  SeriesAnswer,
  SeriesPart,
  SeriesRequest,
  Source,
  SweepSource,
} from "./source.ts";

export const ARCHIVE_ELEMENT = "epochal-archive";

export function findArchive(root: Document = document): ArchiveBody | null {
  const text = root.getElementById(ARCHIVE_ELEMENT)?.textContent?.trim() ?? "";
  return text === "" ? null : (JSON.parse(text) as ArchiveBody);
}

export function createArchiveSource(body: ArchiveBody): Source {
  if (body.wire !== WIRE_VERSION)
    throw new Error(`this file was saved by another version (${body.wire})`);
  let decoded: Promise<readonly SeriesPart[]> | null = null;
  const parts = (): Promise<readonly SeriesPart[]> => {
    decoded ??= Promise.all(body.series.map(decodeBase64)).then((answers) =>
      answers.flatMap((answer) => answer.parts),
    );
    return decoded;
  };
  return {
    connection: signal<Connection>("archive"),
    updateLabels: null,
    changes: null,
    control: null,
    projects: async () => ({ projects: [...projectRows(body.runs.rows)] }),
    supportsQueries: false,
    sweep: sweepOf(body),
    async runs({ query = "", choice, offset = 0, limit = Infinity, summaries = [] }) {
      if (choice === undefined ? query !== "" : choice.words === null)
        throw new SourceError("Queries need the server; an archive supports words.", 400);
      const rows = chooseRuns(body.runs.rows, choice);
      const keys = choice?.groupKeys ?? [];
      const groups = [
        ...groupBy(rows, (row) =>
          JSON.stringify(keys.map((key) => configValue(row.config, key) ?? null)),
        ),
      ];
      return {
        rows: rows
          .slice(offset, offset + limit)
          .map((row) => withSummaries(row, summaries, responsesOf(body, row.id))),
        total: rows.length,
        offset,
        stored: body.runs.total,
        projects: [...new Set(body.runs.rows.map(({ project }) => project))].sort(),
        groups:
          keys.length === 0
            ? null
            : groups.map(([values, { length: count }]) => ({
                values: JSON.parse(values) as unknown[],
                count,
                states: {},
                last: {},
              })),
      };
    },
    async get(endpoint, run, params) {
      const response = responsesOf(body, run)[endpoint];
      if (isEntryKind(endpoint))
        return chooseEntries(
          response as EntryList | undefined,
          params as EntryParams,
        ) as RunResponses[typeof endpoint];
      if (endpoint === "samples")
        return chooseSamples(
          responsesOf(body, run),
          params as RunParams["samples"],
        ) as RunResponses[typeof endpoint];
      if (response === undefined) throw new SourceError("This run is not in this file.", 404);
      if (endpoint === "run_metrics")
        return chooseMetrics(
          allMetrics(responsesOf(body, run)),
          params as RunParams["run_metrics"],
        ) as RunResponses[typeof endpoint];
      return response;
    },
    series: async (request) => chooseSeries(await parts(), request, body),
    blobUrl: (run, file) => body.blobs[run]?.[file] ?? MISSING_BLOB,
    blobText: async (run, file) => {
      const address = body.blobs[run]?.[file];
      if (address === undefined) throw new SourceError("This file is not in this archive.", 404);
      return textOf(address);
    },
    numLeftOut: (run) => {
      const { names = {}, entries = [] } = responsesOf(body, run).blobs ?? {};
      return Object.values(names).reduce((sum, num) => sum + num, 0) - entries.length;
    },
    plotlyUrl: () =>
      Promise.reject(
        new SourceError(
          "A saved file cannot draw figures of Plotly. Open the folder of this run with “epochal serve” to see it.",
          404,
        ),
      ),
    exportUrl: () => null,
    boards: { list: async () => ({ boards: body.boards }), save: null, remove: null },
    follow: () => ({ subscribe: () => undefined, close: () => undefined }),
  };
}

/** What the server chooses of the runs, and in which order. */
function chooseRuns(
  all: readonly RunRow[],
  { ids, projects, withHidden = true, words, order = "", groupKeys = [] }: RunChoice = {},
): readonly RunRow[] {
  const matches = compileFilter(words ?? "");
  const found = all.filter(
    (row) =>
      (ids === undefined || ids.includes(row.id)) &&
      (projects == null || projects.includes(row.project)) &&
      (withHidden || !row.hidden) &&
      matches(searchTextsOf(row).join(" ")),
  );
  return ordered(found, order).toSorted(byKeys(groupKeys));
}

/** Tables that were computed when the file was saved: of all its runs and of last values. */
function sweepOf(body: ArchiveBody): SweepSource {
  const { groups = {}, importance = {} } = body.sweep as {
    groups?: Record<string, GroupTables>;
    importance?: Record<string, Importance>;
  };
  const check = ({
    query = "",
    value = "last",
    unfinished = false,
  }: {
    readonly query?: string;
    readonly value?: string;
    readonly unfinished?: boolean;
  }): void => {
    if (query.includes("("))
      throw new SourceError("This file has numbers of all its runs: clear the filter.", 0);
    if (value !== "last") throw new SourceError("This file has numbers of last values only.", 0);
    if (unfinished) throw new SourceError("This file has numbers of finished runs only.", 0);
  };
  return {
    curves: null,
    async groups(request) {
      check(request);
      const choice =
        request.all_but === undefined
          ? (request.by ?? []).join(",")
          : `-${request.all_but.join(",")}`;
      const found = groups[choice];
      if (found === undefined)
        throw new SourceError(
          `This file has groups by ${Object.keys(groups).map(groupName).join("; ") || "nothing"}.`,
          0,
        );
      const tables = found.tables.filter(({ metric }) => request.metric.includes(metric));
      if (tables.length === 0)
        throw new SourceError(
          `This file has groups of ${found.tables.map(({ metric }) => metric).join(", ")}.`,
          0,
        );
      return { ...found, tables };
    },
    async importance(request) {
      check(request);
      const found = importance[request.metric];
      if (found === undefined)
        throw new SourceError(
          `This file ranks keys for ${Object.keys(importance).join(", ") || "no metric"}.`,
          0,
        );
      return found;
    },
    why: null,
  };
}

/** The answer about a run lists all metrics, or the file has them beside it. */
function allMetrics({ run, run_metrics: all }: Partial<RunResponses>): readonly MetricRow[] {
  return all !== undefined && all.total > 0 ? all.metrics : (run?.metrics ?? []);
}

/** What the server chooses of the metrics of a run. */
function chooseMetrics(
  metrics: readonly MetricRow[],
  { name = [], find = "", section, offset = 0, limit = 200 }: RunParams["run_metrics"] = {},
): MetricList {
  const matches = compileFilter(find);
  const found = metrics.filter(
    (one) =>
      (name.length === 0 || name.includes(one.name)) &&
      (section === undefined || groupOf(one.name) === section) &&
      matches(one.name),
  );
  return { metrics: found.slice(offset, offset + limit), total: found.length, offset };
}

type EntryParams = RunParams[EntryKind] & {
  readonly rank?: number | "all" | readonly number[];
  readonly kind?: readonly string[];
};

function isEntryKind(endpoint: string): endpoint is EntryKind {
  return endpoint in ENTRY_KINDS;
}

function responsesOf(body: ArchiveBody, run: string): Partial<RunResponses> {
  return body.responses[run] ?? {};
}

/** Details have the summary of every metric; rows only the headlines. */
function withSummaries(
  row: RunRow,
  names: readonly string[],
  responses: Partial<RunResponses>,
): RunRow {
  const metrics = allMetrics(responses);
  const summaries = { ...row.summaries };
  for (const name of names) {
    const found = metrics.find(
      (metric) => metric.name === (responses.run?.roles[name.replace(/^role:/, "")] ?? name),
    )?.summary;
    if (found != null) summaries[name] ??= found;
  }
  return { ...row, summaries };
}

/** The text of a `data:` URL; a saved page may not fetch it. */
function textOf(address: string): string {
  const encoded = address.slice(address.indexOf(",") + 1);
  return new TextDecoder().decode(
    Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0)),
  );
}

async function decodeBase64(text: string): Promise<SeriesAnswer> {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const isCompressed = bytes[0] === 0x1f && bytes[1] === 0x8b;
  if (!isCompressed) return decodeSeries(bytes.buffer);
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return decodeSeries(await new Response(plain).arrayBuffer());
}

function chooseSeries(
  parts: readonly SeriesPart[],
  request: SeriesRequest,
  body: ArchiveBody,
): SeriesAnswer {
  const { runs, names, ranks = [0], axis, x, lo = -Infinity, hi = Infinity } = request;
  const fits = ({ head }: SeriesPart): boolean =>
    runs.includes(head.run) &&
    names.includes(head.name) &&
    (axis === undefined || head.axis === axis) &&
    (ranks === "all" || ranks.includes(head.rank));
  const found = parts
    .filter(fits)
    .filter((part, _, all) => axis !== undefined || part.head.axis === firstAxis(all, part.head));
  const moved = found.flatMap((part) =>
    x === null || x === part.head.x || isXKind(x)
      ? reindexed(part, x, body)
      : (alongMetric(part, x, parts) ?? []),
  );
  const isOf =
    (run: string, name: string) =>
    ({ head }: SeriesPart): boolean =>
      head.run === run && head.name === name;
  return {
    parts: moved.map((part) => within(withSmoothed(part, request.smooth), lo, hi)),
    missing: runs.flatMap((run) =>
      names
        .filter((name) => !moved.some(isOf(run, name)))
        .map((name) => ({
          run,
          name,
          rank: 0,
          reason: found.some(isOf(run, name))
            ? `This chart needs the server: the file has no x axis ${x}.`
            : (body.problems[name] ?? "This series is not in this file."),
        })),
    ),
    positions: {},
  };
}

/** Of one name along several axes, the server answers steps first, then epochs, then times. */
function firstAxis(parts: readonly SeriesPart[], { run, name, rank }: SeriesHead): string {
  const axes = parts
    .filter(({ head }) => head.run === run && head.name === name && head.rank === rank)
    .map(({ head }) => head.axis);
  return (["step", "epoch", "time"] as const).find((axis) => axes.includes(axis)) ?? "step";
}

function reindexed(part: SeriesPart, x: string | null, body: ArchiveBody): SeriesPart {
  const { head, data, times } = part;
  if (x === null || x === head.x) return part;
  const row = responsesOf(body, head.run).run?.row;
  if (x === "progress") return withProgress(part, row);
  const created = row?.created ?? null;
  const isTimed = x === "wall" || x === "relative";
  const start = x === "relative" ? created : 0;
  if (isTimed && start !== null) {
    if (head.axis === "time") return withMovedX(part, x, (at) => at - start);
    if (data.kind === "raw" && times !== null) {
      const at = times.map((t) => t - start);
      return { head: { ...head, x }, data: { ...data, x: at }, times };
    }
  }
  const knots =
    head.x === "step" ? body.axes[head.run]?.[isTimed ? "wall" : (x as XKind)] : undefined;
  if (knots === undefined || knots.step.length === 0 || (isTimed && start === null)) return part;
  return withMovedX(part, x, (at) => interpolated(knots, at) - (isTimed ? start! : 0));
}

/** Each point where another metric was last, in its order; null where the file does not have every point of both. */
function alongMetric(
  { head, data, times }: SeriesPart,
  x: string,
  parts: readonly SeriesPart[],
): SeriesPart | null {
  const other = parts.find(
    ({ head: { run, name, rank, x: own } }) =>
      run === head.run && name === x && rank === head.rank && own === head.x,
  )?.data;
  if (data.kind !== "raw" || other?.kind !== "raw") return null;
  const at = data.x.map((step) => {
    const next = lowerBound(other.x, step);
    return other.y[other.x[next] === step ? next : next - 1] ?? NaN;
  });
  const order = [...at.keys()]
    .filter((index) => Number.isFinite(at[index]))
    .sort((one, next) => at[one]! - at[next]!);
  const pick = (column: Float64Array): Float64Array =>
    Float64Array.from(order, (index) => column[index]!);
  return {
    head: { ...head, x, count: order.length, points: order.length },
    data: { ...data, x: pick(at), y: pick(data.y) },
    times: times && pick(times),
  };
}

/** In percent of the steps or epochs that were planned, or were recorded if those are more. Steps count from 0, epochs when they are complete. */
function withProgress(part: SeriesPart, row: RunRow | undefined): SeriesPart {
  const { axis, x, hi } = part.head;
  if (row === undefined || axis === "time" || x !== axis) return part;
  const before = axis === "step" ? 1 : 0;
  const [planned, recorded] =
    axis === "step" ? [row.total_steps, row.step] : [row.num_epochs, row.epoch];
  const total = Math.max(planned ?? 1, (recorded ?? 0) + before, (hi ?? 0) + before);
  return withMovedX(part, "progress", (at) => (100 * (at + before)) / total);
}

/** Smoothed over every point where they are in the file, else from the averages of slices. */
export function withSmoothed(part: SeriesPart, text: string | undefined): SeriesPart {
  if (text === undefined) return part;
  const { data, columns = {} } = part;
  const weight = smoothingWeight(text);
  return {
    ...part,
    smoothed: {
      text,
      values: data.kind === "raw" ? ema(data.y, weight) : smoothSlices(columns, weight),
      state: null,
    },
  };
}

function withMovedX(part: SeriesPart, x: string, move: (at: number) => number): SeriesPart {
  return {
    ...part,
    head: { ...part.head, x },
    data: withX(part.data, (column) => column.map(move)),
  };
}

function interpolated({ step, at }: Knots, value: number): number {
  const above = Math.min(lowerBound(step, value), step.length - 1);
  if (above === 0 || step[above] === value) return at[above]!;
  const share = (value - step[above - 1]!) / (step[above]! - step[above - 1]!);
  return at[above - 1]! + (at[above]! - at[above - 1]!) * share;
}

function withX(data: SeriesData, change: (column: Float64Array) => Float64Array): SeriesData {
  if (data.kind === "raw") return { ...data, x: change(data.x) };
  return {
    ...data,
    firstX: change(data.firstX),
    lastX: change(data.lastX),
    minX: change(data.minX),
    maxX: change(data.maxX),
    nonfiniteX: change(data.nonfiniteX),
  };
}

/** The rows of a part that reach into a range. */
function within(part: SeriesPart, lo: number, hi: number): SeriesPart {
  if (lo === -Infinity && hi === Infinity) return part;
  const { data, head } = part;
  if (data.kind === "raw") {
    const keep = (_: number, index: number): boolean =>
      data.x[index]! >= lo && data.x[index]! <= hi;
    const kept = { ...data, x: data.x.filter(keep), y: data.y.filter(keep) };
    return {
      head: { ...head, count: kept.x.length, points: kept.x.length },
      data: kept,
      times: part.times?.filter(keep) ?? null,
      ...smoothedWhere(part, keep),
    };
  }
  const keep = (_: number, index: number): boolean =>
    data.lastX[index]! >= lo && data.firstX[index]! <= hi;
  const keepMark = (_: number, index: number): boolean =>
    data.nonfiniteX[index]! >= lo && data.nonfiniteX[index]! <= hi;
  const columns = Object.entries(data).map(([name, column]) => [
    name,
    column instanceof Float64Array
      ? column.filter(name.startsWith("nonfinite") ? keepMark : keep)
      : column,
  ]);
  const kept = Object.fromEntries(columns) as typeof data;
  return {
    head: {
      ...head,
      count: kept.mean.length,
      points: kept.count.reduce((sum, one) => sum + one, 0),
    },
    data: kept,
    times: null,
    ...smoothedWhere(part, keep),
  };
}

function smoothedWhere(
  { smoothed }: SeriesPart,
  keep: (value: number, index: number) => boolean,
): Pick<SeriesPart, "smoothed"> {
  return smoothed === undefined
    ? {}
    : { smoothed: { ...smoothed, values: smoothed.values.filter(keep) } };
}

function chooseEntries(
  list: EntryList | undefined,
  { name, offset = 0, limit = 500, spread = false, rank, kind }: EntryParams = {},
): EntryList {
  const all = (list?.entries ?? []).filter(
    (entry) =>
      (name === undefined || entry.name === name) &&
      (rank === undefined || rank === "all" || entry.rank === rank) &&
      (kind === undefined || kind.includes(entry.kind)),
  );
  const end = Math.max(0, all.length - offset);
  return {
    entries: spread ? spreadOver(all, limit) : all.slice(Math.max(0, end - limit), end),
    names: list?.names ?? {},
    total: all.length,
    offset,
  };
}

/** What the server chooses of texts and blobs: of each name the last step up to `at`. */
function chooseSamples(
  { texts, blobs }: Partial<RunResponses>,
  { at = Infinity }: RunParams["samples"] = {},
): SampleList {
  const all = [...(texts?.entries ?? []), ...(blobs?.entries ?? [])].filter(
    ({ rank }) => rank === 0,
  );
  const placeOf = ({ step }: EntryRow): number => step ?? -Infinity;
  const latest = [
    ...groupBy(
      all.filter((entry) => placeOf(entry) <= at),
      ({ name }) => name ?? "",
    ).values(),
  ].map((entries) => {
    const last = Math.max(...entries.map(placeOf));
    return entries.filter((entry) => placeOf(entry) === last);
  });
  return {
    entries: latest.flat(),
    names: { ...texts?.names, ...blobs?.names },
    steps: [...new Set(all.flatMap(({ step }) => step ?? []))].sort((one, other) => one - other),
  };
}

function spreadOver(entries: readonly EntryRow[], limit: number): EntryRow[] {
  if (entries.length <= limit) return [...entries];
  return Array.from(
    { length: limit },
    (_, index) => entries[Math.round((index / Math.max(1, limit - 1)) * (entries.length - 1))]!,
  );
}
