/** One event stream of several runs: subscribes to runs and reconnects where it left off. */

import type {
  LiveEvent,
  ReadyEvent,
  RecordsEvent,
  ResetEvent,
  RunsEvent,
  StatusEvent,
} from "../wire.ts";
import { positionsOf } from "./position.ts";
import type { Connection, UpdateFeed, Update, Subscription } from "./source.ts";

export interface Stream extends UpdateFeed {
  /** Continue after an update that the stream of another tab has delivered. */
  resumeAfter(update: Update): void;
}

export interface StreamOptions {
  readonly update: (update: Update) => void;
  readonly connection: (state: Connection) => void;
  /** Opens the address; replaced in tests. */
  readonly open: (address: string) => EventSource;
}

/** Details of runs arrive one by one; this avoids opening a stream for each. */
const GATHER_MS = 200;
/** Users who switch panels return soon; unused readings cost less than opening two streams. */
const LINGER_MS = 5000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 8000;

export function createStream({ update, connection, open }: StreamOptions): Stream {
  let wanted: Subscription = { positions: new Map(), hasAllRanks: false, hasReadings: false };
  let current: { readonly events: EventSource; readonly subscription: Subscription } | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let lingering: ReturnType<typeof setTimeout> | undefined;
  let retryMs = FIRST_RETRY_MS;
  let isClosed = false;
  /** The position to resume from; heartbeats advance it without updates. */
  const cursors = new Map<string, string>();
  /** The position after each run's last update. */
  const told = new Map<string, string>();

  const schedule = (delayMs: number): void => {
    clearTimeout(timer);
    if (!isClosed) timer = setTimeout(connect, delayMs);
  };

  const connect = (): void => {
    current?.events.close();
    clearTimeout(lingering);
    const runs = [...wanted.positions.keys()].sort();
    for (const [run, position] of wanted.positions) {
      if (!cursors.has(run)) cursors.set(run, position);
      if (!told.has(run)) told.set(run, cursors.get(run)!);
    }
    const query = new URLSearchParams(runs.map((run) => ["run", run]));
    for (const run of runs) query.append("since", cursors.get(run)!);
    if (wanted.hasAllRanks) query.append("rank", "all");
    if (wanted.hasReadings) query.append("live", "1");
    const events = open(`api/events?${query}`);
    current = { events, subscription: wanted };
    listen(events);
  };

  const listen = (events: EventSource): void => {
    const on = <Data>(
      name: string,
      handle: (data: Data, positions: ReadonlyMap<string, string>) => void,
    ): void => {
      events.addEventListener(name, (event: MessageEvent<string>) => {
        if (current?.events !== events) return;
        const positions = positionsOf(event.lastEventId);
        for (const [run, position] of positions)
          if (wanted.positions.has(run)) cursors.set(run, position);
        handle(JSON.parse(event.data) as Data, positions);
      });
    };
    on<ReadyEvent>("ready", () => {
      retryMs = FIRST_RETRY_MS;
      connection("live");
      update({ type: "joined" });
    });
    on<RecordsEvent>("records", (data, positions) => {
      const to = positions.get(data.run);
      if (to === undefined) return;
      const from = told.get(data.run) ?? null;
      told.set(data.run, to);
      update({
        type: "records",
        from,
        to,
        hasAllRanks: current!.subscription.hasAllRanks,
        ...data,
      });
    });
    on<StatusEvent>("status", (data) => update({ type: "status", ...data }));
    on<LiveEvent>("live", (data) => update({ type: "live", ...data }));
    on<RunsEvent>("runs", (data) => update({ type: "runs", ...data }));
    on<ResetEvent>("reset", (data, positions) => {
      for (const run of data.run === null ? [...told.keys()] : [data.run]) {
        const at = positions.get(run);
        if (at !== undefined) told.set(run, at);
      }
      update({ type: "reset", ...data });
    });
    on("heartbeat", () => undefined);
    events.onerror = () => {
      if (current?.events !== events) return;
      // The browser's own way back would lose the runs wanted since, and gives up on some answers.
      events.close();
      connection("lost");
      schedule(retryMs);
      retryMs = Math.min(retryMs * 2, LONGEST_RETRY_MS);
    };
  };

  const hurry = (): void => {
    if (current === null || current.events.readyState === EventSource.CLOSED) schedule(0);
  };
  window.addEventListener("online", hurry);
  document.addEventListener("visibilitychange", hurry);

  return {
    subscribe(subscription) {
      wanted = subscription;
      const { positions, hasAllRanks, hasReadings } = subscription;
      for (const run of [...cursors.keys()]) {
        if (positions.has(run)) continue;
        cursors.delete(run);
        told.delete(run);
      }
      // News of runs and ranks that nobody wants any more do no harm; a new stream for each would.
      const now = current?.subscription;
      const isEnough =
        now !== undefined &&
        (now.hasAllRanks || !hasAllRanks) &&
        (now.hasReadings || !hasReadings) &&
        [...positions.keys()].every((run) => now.positions.has(run));
      if (!isEnough) schedule(GATHER_MS);
      clearTimeout(lingering);
      if (isEnough && now.hasReadings && !hasReadings)
        lingering = setTimeout(() => schedule(0), LINGER_MS);
    },
    resumeAfter(one) {
      if (one.type !== "records") return;
      told.set(one.run, one.to);
      cursors.set(one.run, one.to);
    },
    close() {
      isClosed = true;
      clearTimeout(timer);
      clearTimeout(lingering);
      current?.events.close();
      window.removeEventListener("online", hurry);
      document.removeEventListener("visibilitychange", hurry);
    },
  };
}
