/** The page's state in one place: what panels are given. */

import { batch, computed, effect, signal } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";

import { createLazyQueue, createSyncBus } from "../chart/index.ts";
import type { Update, RecordsUpdate, Source } from "../source/source.ts";
import { createToasts } from "../ui/toast.tsx";
import { newestValue } from "./run-rows.ts";
import { createSeriesCache } from "./series-cache.ts";
import { createDetails, isWide } from "./run-details.ts";
import { createBoards } from "./boards.ts";
import { createFindings } from "./findings.ts";
import { createMarks } from "./marks.ts";
import { metricsOf, setNamesOf } from "./metrics.ts";
import { createNotifier } from "./notify.ts";
import { createReadings } from "./machine-readings.ts";
import { HEADLINES, isEnded } from "./run-rows.ts";
import { createRuns } from "./runs.ts";
import { createSelection } from "./selection.ts";
import { createView, isXKind } from "./view.ts";
import type { PlaceId, View, Zoom } from "./view.ts";

/** What panels are given. */
export type Page = ReturnType<typeof createPage>;

/** More runs than this are not followed at once; the list still tells of them. */
const MOST_FOLLOWED = 24;
/** Charts grow once in a tick; lists and tables are refreshed every other one. A drawing for each record would take a quarter of a core. */
const TICK_MS = 500;
const TICKS_PER_REFRESH = 2;
/** A tab that was hidden for longer than this many updates fetches what it shows again. */
const MOST_WAITING = 500;

export function createPage(source: Source, view: View = createView()) {
  const toasts = createToasts();
  const notifier = createNotifier((sentence) => toasts.show(sentence, "critical"));
  const boards = createBoards(source, view);
  const runs = createRuns(source, view, notifier.compare, boards.frozen);
  const details = createDetails(source, (sentence) => toasts.show(sentence, "critical"));
  /** Updates of the list that wait until runs are deleted. */
  const heldUpdates: Update[] = [];
  let numRemovals = 0;
  const whileRemoving = async (work: () => Promise<void>): Promise<void> => {
    numRemovals++;
    try {
      await details.hold(() => runs.hold(work));
    } finally {
      if (--numRemovals === 0) heldUpdates.splice(0).forEach((update) => apply(update));
    }
  };
  const selection = createSelection({
    source,
    runs,
    view,
    toasts,
    onChanged: (ids) => ids.forEach((id) => details.refetch(id)),
    onRemoved: (ids) => ids.forEach((id) => details.forget(id)),
    whileRemoving,
  });
  const seriesCache = createSeriesCache(source, (run) => runs.row(run)?.created ?? null);
  const focused = computed(() => runs.focus.value?.id ?? null);
  const findings = createFindings(source, focused);
  const marks = createMarks(source, focused);
  const listeners = new Set<(update: Update) => void>();
  const now = signal(Math.floor(Date.now() / 1000));
  const isPaused = signal(false);
  const readings = createReadings(isPaused);
  /** Records and readings that the next tick applies together. */
  let waiting: Update[] = [];
  const feed = source.follow((update) => {
    notifier.apply(update, runs.row);
    if (update.type === "records") showAlerts(update);
    if (update.type === "records" || update.type === "live") {
      if (waiting.length < MOST_WAITING) waiting.push(update);
      else waiting = [{ type: "reset", run: null, reason: "behind" }];
      return;
    }
    if (update.type === "reset") applyWaiting();
    if (update.type === "runs" && numRemovals > 0) heldUpdates.push(update);
    else apply(update);
  });

  const apply = (update: Update): void => {
    runs.apply(update);
    if (update.type === "joined") runs.joined();
    if (update.type === "records") recorded(update);
    if (update.type === "reset") {
      seriesCache.refetch(update.run);
      for (const { id } of update.run === null ? runs.drawn.peek() : [{ id: update.run }])
        details.refetch(id);
      if (update.run === null) runs.reload();
    }
    findings.apply(update);
    marks.apply(update);
    readings.apply(update);
    for (const listener of [...listeners]) listener(update);
  };
  const applyWaiting = (): void => {
    const updates = waiting;
    waiting = [];
    batch(() => updates.forEach(apply));
  };
  let numTicks = 0;
  const tick = (): void =>
    batch(() => {
      // The title of a hidden tab tells how far the run is; nothing else changes in it.
      if (numTicks++ % TICKS_PER_REFRESH === 0) runs.refresh();
      if (document.hidden) return;
      now.value = Math.floor(Date.now() / 1000);
      applyWaiting();
    });
  setInterval(tick, TICK_MS);
  document.addEventListener("visibilitychange", tick);

  const showAlerts = (update: RecordsUpdate): void => {
    for (const { kind, name, record } of update.entries) {
      if (kind !== "event" || name !== "alert") continue;
      const { title, text, level } = record ?? {};
      toasts.show(
        `${runs.row(update.run)?.name ?? "run"}: ${title}${text ? `: ${text}` : ""}`,
        level === "error" ? "critical" : "info",
      );
    }
  };
  const recorded = (update: RecordsUpdate): void => {
    seriesCache.apply(update);
    const detail = details.known(update.run);
    if (detail === null) return;
    const known = new Set(detail.metrics.map(({ name, axis }) => `${axis}\n${name}`));
    const isNew =
      !isWide(detail) &&
      (update.partial || update.points.some(({ name, axis }) => !known.has(`${axis}\n${name}`)));
    if (
      isNew ||
      update.entries.some(
        ({ kind }) =>
          ["define", "finish", "gpu-model", "option", "sol", "summary"].includes(kind) ||
          !detail.recorded.includes(kind),
      )
    )
      details.refetch(update.run);
    for (const role of HEADLINES) {
      const name = detail.roles[role.replace("role:", "")];
      const points = update.points.find((one) => one.name === name && one.rank === 0);
      if (points !== undefined) runs.setHeadline(update.run, role, newestValue(points));
    }
  };

  effect(() => {
    if (!runs.isLoaded.value) return;
    const focus = runs.focus.value;
    const wanted = new Set(
      [...(focus === null ? [] : [focus]), ...runs.drawn.value]
        .filter((row) => !isEnded(row))
        .map(({ id }) => id),
    );
    const positions = new Map<string, string>();
    for (const id of [...wanted].slice(0, MOST_FOLLOWED)) {
      const detail = details.of(id).value;
      if (detail !== null) positions.set(id, detail.position);
    }
    const hasReadings = focus !== null && positions.has(focus.id) && readings.isWanted.value;
    feed.subscribe({ positions, hasAllRanks: seriesCache.hasRanks.value, hasReadings });
  });
  effect(() => seriesCache.pause(isPaused.value));
  // Read here, the details of runs are asked for before their rows are drawn, not afterwards.
  const drawn = computed(() => runs.drawn.value.map(({ id }) => details.of(id).value));
  const metrics = computed(() => metricsOf(drawn.value));
  effect(() => void metrics.value);

  return {
    source,
    view,
    runs,
    boards,
    selection,
    details,
    seriesCache,
    findings,
    marks,
    readings,
    notifier,
    toasts,
    isPaused,
    /** Unix seconds, moving on once a second. */
    now: now as ReadonlySignal<number>,
    /** Lines that stand out in every chart, by run id; empty for all alike. */
    picked: signal<ReadonlySet<string>>(new Set()),
    /** The run under the pointer in the list. */
    hovered: signal<string | null>(null),
    /** One crosshair for all charts. */
    sync: createSyncBus(),
    lazy: createLazyQueue(),
    /** Every metric that any run in the charts has. */
    metrics,
    /** Names of numbers that were set with `run.summary`: they have a summary and no points. */
    setNames: computed(() => setNamesOf(drawn.value)),
    /** Call a listener with each update; returns the function that removes it. */
    onUpdate(listener: (update: Update) => void): () => void {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    /** Open a place, and of a run the section that is named. */
    open(place: PlaceId, section = ""): void {
      batch(() => {
        view.place.value = place;
        view.section.value = section;
        view.full.value = null;
      });
    },
    /** Zoom all charts along that axis, and open a place with charts. */
    zoomTo(zoom: Zoom, place: PlaceId = "board"): void {
      batch(() => {
        if (isXKind(zoom.x)) view.x.value = zoom.x;
        view.zoom.value = zoom;
        view.place.value = place;
      });
    },
  };
}
