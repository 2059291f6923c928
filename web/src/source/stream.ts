/** One server-sent stream of several runs: follows the runs it is told to, and comes back by itself where it left off. */

import type { LiveEvent, ReadyEvent, RecordsEvent, ResetEvent, RunsEvent, StatusEvent } from "../wire.ts";
import { positionsOf } from "./position.ts";
import type { Connection, Feed, News, Wants } from "./source.ts";

export interface Stream extends Feed {
  /** What somebody else's stream has told, so that this one goes on from there. */
  heard(news: News): void;
}

export interface StreamEnds {
  readonly news: (news: News) => void;
  readonly connection: (state: Connection) => void;
  /** Opens the address; replaced in tests. */
  readonly open: (address: string) => EventSource;
}

/** Details of runs come one by one; a stream for each would be opened for nothing. */
const GATHER_MS = 200;
/** Whoever turns pages comes back soon; until then readings are told to nobody, which costs less than two streams. */
const LINGER_MS = 5000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 8000;

export function createStream({ news, connection, open }: StreamEnds): Stream {
  let wanted: Wants = { positions: new Map(), hasAllRanks: false, hasReadings: false };
  let current: { readonly events: EventSource; readonly wants: Wants } | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let lingering: ReturnType<typeof setTimeout> | undefined;
  let retryMs = FIRST_RETRY_MS;
  let isClosed = false;
  /** Where to go on from; heartbeats move it even when nothing is told. */
  const cursors = new Map<string, string>();
  /** Where each run's last news ended: what the next ones follow on. */
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
    current = { events, wants: wanted };
    listen(events);
  };

  const listen = (events: EventSource): void => {
    const on = <Data>(name: string, handle: (data: Data, positions: ReadonlyMap<string, string>) => void): void => {
      events.addEventListener(name, (event: MessageEvent<string>) => {
        if (current?.events !== events) return;
        const positions = positionsOf(event.lastEventId);
        for (const [run, position] of positions) if (wanted.positions.has(run)) cursors.set(run, position);
        handle(JSON.parse(event.data) as Data, positions);
      });
    };
    on<ReadyEvent>("ready", () => {
      retryMs = FIRST_RETRY_MS;
      connection("live");
      news({ type: "joined" });
    });
    on<RecordsEvent>("records", (data, positions) => {
      const to = positions.get(data.run);
      if (to === undefined) return;
      const from = told.get(data.run) ?? null;
      told.set(data.run, to);
      news({ type: "records", from, to, hasAllRanks: current!.wants.hasAllRanks, ...data });
    });
    on<StatusEvent>("status", (data) => news({ type: "status", ...data }));
    on<LiveEvent>("live", (data) => news({ type: "live", ...data }));
    on<RunsEvent>("runs", (data) => news({ type: "runs", ...data }));
    on<ResetEvent>("reset", (data, positions) => {
      for (const run of data.run === null ? [...told.keys()] : [data.run]) {
        const at = positions.get(run);
        if (at !== undefined) told.set(run, at);
      }
      news({ type: "reset", ...data });
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
    want(wants) {
      wanted = wants;
      const { positions, hasAllRanks, hasReadings } = wants;
      for (const run of [...cursors.keys()]) {
        if (positions.has(run)) continue;
        cursors.delete(run);
        told.delete(run);
      }
      // News of runs and ranks that nobody wants any more do no harm; a new stream for each would.
      const now = current?.wants;
      const isEnough = now !== undefined && (now.hasAllRanks || !hasAllRanks) && (now.hasReadings || !hasReadings) && [...positions.keys()].every((run) => now.positions.has(run));
      if (!isEnough) schedule(GATHER_MS);
      clearTimeout(lingering);
      if (isEnough && now.hasReadings && !hasReadings) lingering = setTimeout(() => schedule(0), LINGER_MS);
    },
    heard(one) {
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
