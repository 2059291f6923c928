/**
 * The series on screen. A query is one metric of one run on one axis. It is fetched once, in one request with others that are opened at the same
 * time, and then updates append to it. It is fetched again only when an update does not fit without a gap or a repetition, and for a formula whenever
 * its run recorded points.
 */

import { batch, signal } from "@preact/signals";
import type { ReadonlySignal, Signal } from "@preact/signals";

import type { Range, SeriesData } from "../chart/index.ts";
import { continued, smoothingWeight } from "../chart/smooth.ts";
import { laterPosition, comparePosition } from "../source/position.ts";
import type { RecordsUpdate, SeriesPart, Source } from "../source/source.ts";
import type { AxisName, Points } from "../wire.ts";
import { endOf, appendPoints, extended, lengthOf } from "./append-points.ts";
import type { NewPoints } from "./append-points.ts";
import { isFormula } from "./chart-spec.ts";
import { groupBy } from "./group-by.ts";
import { batchRequests } from "./batch-requests.ts";
import { nonfiniteValue } from "./run-rows.ts";
import { isXKind } from "./view.ts";

export interface SeriesQueryOptions {
  readonly run: string;
  readonly name: string;
  /** Null for the axis that the run defined, else steps. */
  readonly x: string | null;
  readonly axis?: AxisName;
  /** Without it rank 0. */
  readonly ranks?: "all";
  /** Null for the whole series. */
  readonly range: Range | null;
  readonly pixels: number;
  /** Whether slices are equally wide on a logarithmic x. */
  readonly isLog?: boolean;
  /** Such as `ema:0.9`. */
  readonly smooth?: string;
}

export interface SeriesQuery {
  /** One part per rank, empty when the run has no such series; null until the first response. */
  readonly parts: ReadonlySignal<readonly SeriesPart[] | null>;
  /** Why there is no response; the last one stays in `parts`. */
  readonly problem: ReadonlySignal<string | null>;
}

export type SeriesCache = ReturnType<typeof createSeriesCache>;

interface CacheEntry {
  readonly request: SeriesQueryOptions;
  readonly parts: Signal<readonly SeriesPart[] | null>;
  readonly problem: Signal<string | null>;
  position: string;
  numOpen: number;
  state: "idle" | "queued" | "fetching";
  isOutdated: boolean;
  fetchedAt: number;
  /** Updates that arrived during a request. */
  waiting: RecordsUpdate[];
}

const BATCH_MS = 12;
const REFETCH_MS = 2000;
const MAX_CLOSED = 1500;
const MAX_STREAMED_RANKS = 64;

export function createSeriesCache(source: Source, createdOf: (run: string) => number | null) {
  const queries = new Map<string, CacheEntry>();
  const byRun = new Map<string, Set<CacheEntry>>();
  const hasRanks = signal(false);
  let isPaused = false;
  let isScheduled = false;

  const countRanks = (): void => {
    hasRanks.value = [...queries.values()].some(({ request, numOpen, parts }) => {
      if (request.ranks !== "all" || numOpen === 0) return false;
      const found = parts.peek() ?? [];
      return found.length <= MAX_STREAMED_RANKS && found.some(({ head }) => head.rank > 0);
    });
  };

  const fetchSoon = (entry: CacheEntry): void => {
    if (entry.numOpen === 0 || isPaused) {
      entry.isOutdated = true;
      return;
    }
    if (entry.state !== "idle") return;
    entry.state = "queued";
    const wait = Math.max(BATCH_MS, entry.fetchedAt + REFETCH_MS - performance.now());
    if (wait > BATCH_MS) setTimeout(schedule, wait);
    else schedule();
  };
  const schedule = (): void => {
    if (isScheduled) return;
    isScheduled = true;
    setTimeout(send, BATCH_MS);
  };

  const send = (): void => {
    isScheduled = false;
    const now = performance.now();
    const due = [...queries.values()].filter(
      (entry) => entry.state === "queued" && now >= entry.fetchedAt + REFETCH_MS - 1,
    );
    for (const entry of due) {
      entry.state = "fetching";
      entry.fetchedAt = now;
      entry.isOutdated = false;
      entry.waiting = [];
    }
    for (const { request, members } of batchRequests(due)) {
      source.series(request).then(
        (answer) =>
          batch(() => {
            const found = groupBy(answer.parts, ({ head }) => `${head.run}\n${head.name}`);
            for (const entry of members) {
              const { run, name, x } = entry.request;
              const problem =
                isFormula(name) || (x !== null && !isXKind(x))
                  ? answer.missing.find((absent) => absent.run === run && absent.name === name)
                      ?.reason
                  : undefined;
              settle(
                entry,
                found.get(`${run}\n${name}`) ?? [],
                answer.positions[run] ?? entry.position,
                problem,
              );
            }
            if (members.some(({ request: { ranks } }) => ranks === "all")) countRanks();
          }),
        (error: unknown) =>
          batch(() => {
            for (const entry of members)
              fail(entry, error instanceof Error ? error.message : String(error));
          }),
      );
    }
  };

  const settle = (
    entry: CacheEntry,
    parts: readonly SeriesPart[],
    position: string,
    problem: string | null = null,
  ): void => {
    const { waiting } = entry;
    Object.assign(entry, { state: "idle", position, waiting: [] });
    entry.parts.value = parts;
    entry.problem.value = problem;
    for (const update of waiting) applyTo(entry, update);
    if (entry.isOutdated) fetchSoon(entry);
  };

  const fail = (entry: CacheEntry, sentence: string): void => {
    entry.state = "idle";
    entry.problem.value = sentence;
    entry.isOutdated = true;
    fetchSoon(entry);
  };

  const applyTo = (entry: CacheEntry, update: RecordsUpdate): void => {
    const stands = comparePosition(entry.position, update.from, update.to);
    if (stands === "known") return;
    const parts = stands === "beyond" ? null : partsAfter(entry, update, createdOf(update.run));
    if (parts === null) {
      fetchSoon(entry);
      return;
    }
    entry.position = laterPosition(entry.position, update.to);
    if (parts !== entry.parts.value) entry.parts.value = parts;
    // Where the average has no state, the next answer brings it.
    if (
      parts.some(
        ({ smoothed, data }) => smoothed !== undefined && smoothed.values.length < lengthOf(data),
      )
    )
      fetchSoon(entry);
    // Past this, slices of single points cost more than an answer.
    const { pixels } = entry.request;
    if (pixels > 0 && parts.some(({ data, head }) => lengthOf(data) > head.count + 3 * pixels))
      fetchSoon(entry);
  };

  const evict = (): void => {
    let excess = queries.size - MAX_CLOSED;
    for (const [key, entry] of queries) {
      if (excess <= 0) return;
      if (entry.numOpen > 0 || entry.state !== "idle") continue;
      queries.delete(key);
      byRun.get(entry.request.run)?.delete(entry);
      excess--;
    }
  };

  const createEntry = (key: string, request: SeriesQueryOptions): CacheEntry => {
    const made: CacheEntry = {
      request,
      parts: signal(null),
      problem: signal(null),
      position: "",
      numOpen: 0,
      state: "idle",
      isOutdated: true,
      fetchedAt: -Infinity,
      waiting: [],
    };
    queries.set(key, made);
    const ofRun = byRun.get(request.run) ?? new Set();
    byRun.set(request.run, ofRun.add(made));
    return made;
  };

  return {
    /** Whether a series of several ranks is on screen, and few enough that streaming all of them costs less than fetching. */
    hasRanks: hasRanks as ReadonlySignal<boolean>,
    /** The same query for the same options; the caller closes what it opens. */
    open(request: SeriesQueryOptions): SeriesQuery {
      const key = JSON.stringify(request);
      const entry = queries.get(key) ?? createEntry(key, request);
      // The order of the map is the order of use.
      queries.delete(key);
      queries.set(key, entry);
      entry.numOpen++;
      if (request.ranks === "all") countRanks();
      if (entry.isOutdated) fetchSoon(entry);
      return entry;
    },
    close(request: SeriesQueryOptions): void {
      const entry = queries.get(JSON.stringify(request));
      if (entry === undefined) return;
      entry.numOpen--;
      if (request.ranks === "all" && entry.numOpen === 0) countRanks();
      if (entry.numOpen === 0 && queries.size > MAX_CLOSED) evict();
    },
    /** The same query without fetching it. */
    peek(request: SeriesQueryOptions): SeriesQuery {
      const key = JSON.stringify(request);
      return queries.get(key) ?? createEntry(key, request);
    },
    apply(update: RecordsUpdate): void {
      batch(() => {
        for (const entry of byRun.get(update.run) ?? []) {
          if (entry.state === "fetching") entry.waiting.push(update);
          else if (entry.numOpen === 0 || isPaused || entry.parts.value === null)
            entry.isOutdated = true;
          else applyTo(entry, update);
        }
      });
    },
    /** Fetch the queries of a run again, or all of them. */
    refetch(run: string | null): void {
      for (const entry of queries.values()) {
        if (run !== null && entry.request.run !== run) continue;
        entry.isOutdated = true;
        fetchSoon(entry);
      }
    },
    /** While paused nothing is updated; afterwards everything catches up. */
    pause(now: boolean): void {
      isPaused = now;
      if (isPaused) return;
      for (const entry of queries.values()) if (entry.isOutdated) fetchSoon(entry);
    },
  };
}

interface Growth {
  readonly range: Range | null;
  readonly created: number | null;
  readonly isOverlapping: boolean;
}

/** The parts of a query with the points of an update; null if they must be fetched again. */
function partsAfter(
  entry: CacheEntry,
  update: RecordsUpdate,
  created: number | null,
): readonly SeriesPart[] | null {
  const isOverlapping = comparePosition(entry.position, update.from, update.to) === "overlapping";
  const { name, axis, ranks, range } = entry.request;
  let parts = entry.parts.value ?? [];
  // A stream that tells of rank 0 only leaves the others to be asked for: a run may have thousands.
  if (ranks === "all" && !update.hasAllRanks && parts.some(({ head }) => head.rank > 0))
    return null;
  // Of a wide run the stream leaves out most series, and formulas are computed from others: what is on screen is asked for.
  const isIncluded = update.points.some((points) => points.name === name);
  if (!isIncluded && (update.partial || (isFormula(name) && update.points.length > 0))) return null;
  for (const points of update.points) {
    if (
      points.name !== name ||
      (ranks !== "all" && points.rank !== 0) ||
      (axis !== undefined && points.axis !== axis)
    )
      continue;
    const at = parts.findIndex(
      ({ head }) => head.axis === points.axis && head.rank === points.rank,
    );
    const part = parts[at];
    const grown =
      part === undefined ? null : appendToPart(part, points, { range, created, isOverlapping });
    if (grown === null) return null;
    parts = parts.with(at, grown);
  }
  return parts;
}

/** A part with new points appended; null when it has to be fetched. */
export function appendToPart(
  part: SeriesPart,
  points: Points,
  { range, created, isOverlapping }: Growth,
): SeriesPart | null {
  const at = placesAlong(part, points, created);
  if (at === null) return null;
  const { data } = part;
  const last = endOf(data);
  const [x, y, t]: [number[], number[], number[]] = [[], [], []];
  for (const [index, place] of at.entries()) {
    if (!Number.isFinite(place) || (range !== null && (place < range.min || place > range.max)))
      continue;
    // What an overlap repeats is in the series already.
    if (isOverlapping && place <= last) continue;
    const value = points.value[index] ?? nonfiniteValue(points.nonfinite[String(index)]);
    if (x.length > 0 && place < x.at(-1)!) return null;
    if (x.length > 0 && place === x.at(-1)) [x, y, t].forEach((column) => column.pop());
    x.push(place);
    y.push(value);
    t.push(points.t[index] ?? NaN);
  }
  const grown = appendPoints(data, { x, y });
  if (grown === null) return null;
  if (grown === data && part.smoothed === undefined) return part;
  const smoothed = growSmoothed(part, points, at, grown, { x, y });
  if (smoothed === null) return null;
  return { ...part, data: grown, times: null, ...(smoothed === undefined ? {} : { smoothed }) };
}

/** A moving average goes on from its state. Null when the part has to be fetched. */
function growSmoothed(
  { smoothed, data }: SeriesPart,
  points: Points,
  at: readonly number[],
  grown: SeriesData,
  added: NewPoints,
): SeriesPart["smoothed"] | null {
  if (smoothed === undefined || smoothed.state === null) return smoothed;
  const weight = smoothingWeight(smoothed.text);
  let { state } = smoothed;
  const values: number[] = [];
  // Points outside a zoomed range move the average on as well.
  for (const [index, place] of at.entries()) {
    const value = points.value[index];
    if (!Number.isFinite(place)) continue;
    const isAdded = added.x[values.length] === place;
    if (value === null || value === undefined) {
      if (isAdded && grown.kind === "raw")
        values.push(nonfiniteValue(points.nonfinite[String(index)]));
      else if (isAdded) added = withoutIndex(added, values.length);
      continue;
    }
    // A point that replaces another, or that the state has already.
    if (place <= state[2]) return null;
    state = continued(state, weight, place, value);
    if (isAdded) values.push(state[0] / state[1]);
  }
  if (values.length !== lengthOf(grown) - lengthOf(data)) return null;
  return { ...smoothed, state, values: extended(smoothed.values, values) };
}

/** Slices have no place for a point that is not finite. */
function withoutIndex({ x, y }: NewPoints, index: number): NewPoints {
  return { x: x.toSpliced(index, 1), y: y.toSpliced(index, 1) };
}

/** The x of new points on a part's axis; null when only the server knows it. */
function placesAlong(
  { head }: SeriesPart,
  points: Points,
  created: number | null,
): readonly number[] | null {
  if (head.x === "wall") return points.t.map((t) => t ?? NaN);
  if (head.x === "relative")
    return created === null ? null : points.t.map((t) => (t ?? NaN) - created);
  return head.x === points.axis ? points.x : null;
}
