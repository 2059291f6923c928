/**
 * The series on screen. A cell is one metric of one run along one axis; it is asked for once, together with others that are opened at the same
 * time, and then grows with the news. It is asked for again only when news cannot be fitted in without a gap or a repetition.
 */

import { batch, signal } from "@preact/signals";
import type { ReadonlySignal, Signal } from "@preact/signals";

import type { Range } from "../chart/index.ts";
import { farther, standing } from "../source/position.ts";
import type { RecordsNews, SeriesPart, Source } from "../source/source.ts";
import type { AxisName, Nonfinite, Points, XKind } from "../wire.ts";
import { endOf, grow, lengthOf } from "./grow.ts";
import { grouped } from "./grouped.ts";
import { requestsFor } from "./requests.ts";

export interface CellRequest {
  readonly run: string;
  readonly name: string;
  readonly x: XKind;
  readonly axis?: AxisName;
  /** Without it rank 0. */
  readonly ranks?: "all";
  /** Null for the whole series. */
  readonly range: Range | null;
  readonly pixels: number;
}

export interface Cell {
  /** One part per rank, empty when the run has no such series; null until the first answer. */
  readonly parts: ReadonlySignal<readonly SeriesPart[] | null>;
  /** Why there is no answer; the last one stays in `parts`. */
  readonly problem: ReadonlySignal<string | null>;
}

export interface Book {
  /** The same cell for the same request. Whoever opens it closes it. */
  open(request: CellRequest): Cell;
  close(request: CellRequest): void;
  /** The same cell without asking for it. */
  peek(request: CellRequest): Cell;
  apply(news: RecordsNews): void;
  /** Ask anew for what is known of a run, or of all. */
  renew(run: string | null): void;
  /** Whether a series of several ranks is on screen, and not of so many that a stream of them all would cost more than asking. */
  readonly hasRanks: ReadonlySignal<boolean>;
  /** While paused nothing grows; then everything catches up. */
  pause(isPaused: boolean): void;
}

interface Held {
  readonly request: CellRequest;
  readonly parts: Signal<readonly SeriesPart[] | null>;
  readonly problem: Signal<string | null>;
  position: string;
  numOpen: number;
  state: "still" | "wanted" | "asked";
  isOutdated: boolean;
  askedAt: number;
  /** What came in while an answer was under way. */
  waiting: RecordsNews[];
}

const GATHER_MS = 12;
const AGAIN_MS = 2000;
const MAX_CLOSED = 1500;
const MOST_RANKS_FOLLOWED = 64;

export function createBook(source: Source, createdOf: (run: string) => number | null): Book {
  const cells = new Map<string, Held>();
  const byRun = new Map<string, Set<Held>>();
  const hasRanks = signal(false);
  let isPaused = false;
  let gathering: ReturnType<typeof setTimeout> | undefined;

  const countRanks = (): void => {
    hasRanks.value = [...cells.values()].some(({ request, numOpen, parts }) => {
      if (request.ranks !== "all" || numOpen === 0) return false;
      const found = parts.peek() ?? [];
      return found.length <= MOST_RANKS_FOLLOWED && found.some(({ head }) => head.rank > 0);
    });
  };

  const ask = (held: Held): void => {
    if (held.numOpen === 0 || isPaused) {
      held.isOutdated = true;
      return;
    }
    if (held.state !== "still") return;
    held.state = "wanted";
    const wait = Math.max(GATHER_MS, held.askedAt + AGAIN_MS - performance.now());
    if (wait > GATHER_MS) setTimeout(gather, wait);
    else gather();
  };
  const gather = (): void => {
    gathering ??= setTimeout(send, GATHER_MS);
  };

  const send = (): void => {
    gathering = undefined;
    const now = performance.now();
    const due = [...cells.values()].filter((held) => held.state === "wanted" && now >= held.askedAt + AGAIN_MS - 1);
    for (const held of due) {
      held.state = "asked";
      held.askedAt = now;
      held.isOutdated = false;
      held.waiting = [];
    }
    for (const { request, members } of requestsFor(due)) {
      source.series(request).then(
        (answer) => batch(() => {
          const found = grouped(answer.parts, ({ head }) => `${head.run}\n${head.name}`);
          for (const held of members) {
            const { run, name } = held.request;
            settle(held, found.get(`${run}\n${name}`) ?? [], answer.positions[run] ?? held.position);
          }
          if (members.some(({ request: { ranks } }) => ranks === "all")) countRanks();
        }),
        (error: unknown) => batch(() => {
          for (const held of members) fail(held, error instanceof Error ? error.message : String(error));
        }),
      );
    }
  };

  const settle = (held: Held, parts: readonly SeriesPart[], position: string): void => {
    const { waiting } = held;
    Object.assign(held, { state: "still", position, waiting: [] });
    held.parts.value = parts;
    held.problem.value = null;
    for (const news of waiting) applyTo(held, news);
    if (held.isOutdated) ask(held);
  };

  const fail = (held: Held, sentence: string): void => {
    held.state = "still";
    held.problem.value = sentence;
    held.isOutdated = true;
    ask(held);
  };

  const applyTo = (held: Held, news: RecordsNews): void => {
    const stands = standing(held.position, news.from, news.to);
    if (stands === "known") return;
    if (stands === "beyond") return ask(held);
    const { name, axis, ranks, range, pixels } = held.request;
    let parts = held.parts.value ?? [];
    // A stream that tells of rank 0 only leaves the others to be asked for: a run may have thousands.
    if (ranks === "all" && !news.hasAllRanks && parts.some(({ head }) => head.rank > 0)) return ask(held);
    for (const points of news.points) {
      if (points.name !== name || (ranks !== "all" && points.rank !== 0) || (axis !== undefined && points.axis !== axis)) continue;
      const at = parts.findIndex(({ head }) => head.axis === points.axis && head.rank === points.rank);
      const part = parts[at];
      const grown = part === undefined ? null : grownPart(part, points, { range, created: createdOf(news.run), isOverlapping: stands === "overlapping" });
      if (grown === null) return ask(held);
      parts = parts.with(at, grown);
    }
    held.position = farther(held.position, news.to);
    if (parts !== held.parts.value) held.parts.value = parts;
    // Past this, slices of single points cost more than an answer.
    if (pixels > 0 && parts.some(({ data, head }) => lengthOf(data) > head.count + 3 * pixels)) ask(held);
  };

  const evict = (): void => {
    let excess = cells.size - MAX_CLOSED;
    for (const [key, held] of cells) {
      if (excess <= 0) return;
      if (held.numOpen > 0 || held.state !== "still") continue;
      cells.delete(key);
      byRun.get(held.request.run)?.delete(held);
      excess--;
    }
  };

  const hold = (key: string, request: CellRequest): Held => {
    const made: Held = {
      request, parts: signal(null), problem: signal(null), position: "", numOpen: 0, state: "still", isOutdated: true, askedAt: -Infinity, waiting: [],
    };
    cells.set(key, made);
    const ofRun = byRun.get(request.run) ?? new Set();
    byRun.set(request.run, ofRun.add(made));
    return made;
  };

  return {
    hasRanks,
    open(request) {
      const key = keyOf(request);
      const held = cells.get(key) ?? hold(key, request);
      // The order of the map is the order of use.
      cells.delete(key);
      cells.set(key, held);
      held.numOpen++;
      if (request.ranks === "all") countRanks();
      if (held.isOutdated) ask(held);
      return held;
    },
    close(request) {
      const held = cells.get(keyOf(request));
      if (held === undefined) return;
      held.numOpen--;
      if (request.ranks === "all" && held.numOpen === 0) countRanks();
      if (held.numOpen === 0 && cells.size > MAX_CLOSED) evict();
    },
    peek(request) {
      const key = keyOf(request);
      return cells.get(key) ?? hold(key, request);
    },
    apply(news) {
      batch(() => {
        for (const held of byRun.get(news.run) ?? []) {
          if (held.state === "asked") held.waiting.push(news);
          else if (held.numOpen === 0 || isPaused || held.parts.value === null) held.isOutdated = true;
          else applyTo(held, news);
        }
      });
    },
    renew(run) {
      for (const held of cells.values()) {
        if (run !== null && held.request.run !== run) continue;
        held.isOutdated = true;
        ask(held);
      }
    },
    pause(now) {
      isPaused = now;
      if (isPaused) return;
      for (const held of cells.values()) if (held.isOutdated) ask(held);
    },
  };
}

interface Growth {
  readonly range: Range | null;
  readonly created: number | null;
  readonly isOverlapping: boolean;
}

/** A part with news added; null when it has to be asked for. */
export function grownPart(part: SeriesPart, points: Points, { range, created, isOverlapping }: Growth): SeriesPart | null {
  const at = placesAlong(part, points, created);
  if (at === null) return null;
  const { data } = part;
  const last = endOf(data);
  const [x, y, t]: [number[], number[], number[]] = [[], [], []];
  for (const [index, place] of at.entries()) {
    if (!Number.isFinite(place) || (range !== null && (place < range.min || place > range.max))) continue;
    // What an overlap repeats is in the series already.
    if (isOverlapping && place <= last) continue;
    const value = points.value[index] ?? nonfiniteValue(points.nonfinite[String(index)]);
    if (x.length > 0 && place < x.at(-1)!) return null;
    if (x.length > 0 && place === x.at(-1)) [x, y, t].forEach((column) => column.pop());
    x.push(place);
    y.push(value);
    t.push(points.t[index] ?? NaN);
  }
  const grown = grow(data, { x, y });
  if (grown === null) return null;
  return grown === data ? part : { ...part, data: grown, times: null };
}

/** Where news stand along a part's axis; null when only the server can tell. */
function placesAlong({ head }: SeriesPart, points: Points, created: number | null): readonly number[] | null {
  if (head.x === "wall") return points.t.map((t) => t ?? NaN);
  if (head.x === "relative") return created === null ? null : points.t.map((t) => (t ?? NaN) - created);
  return head.x === points.axis ? points.x : null;
}

function nonfiniteValue(word: Nonfinite | undefined): number {
  return word === "inf" ? Infinity : word === "-inf" ? -Infinity : NaN;
}

function keyOf({ run, name, x, axis, ranks, range, pixels }: CellRequest): string {
  return JSON.stringify([run, name, x, axis, ranks, range?.min, range?.max, pixels]);
}
