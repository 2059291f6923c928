/** One server-sent stream of several runs: follows the runs it is told to, and comes back by itself where it left off. */

import type { ReadyEvent, RecordsEvent, ResetEvent, RunsEvent, StatusEvent } from "../wire.ts";
import { positionsOf } from "./position.ts";
import type { Connection, News } from "./source.ts";

export interface Stream {
  want(positions: ReadonlyMap<string, string>, hasAllRanks: boolean): void;
  /** What somebody else's stream has told, so that this one goes on from there. */
  heard(news: News): void;
  close(): void;
}

export interface StreamEnds {
  readonly news: (news: News) => void;
  readonly connection: (state: Connection) => void;
  /** Opens the address; replaced in tests. */
  readonly open: (address: string) => EventSource;
}

/** Details of runs come one by one; a stream for each would be opened for nothing. */
const GATHER_MS = 200;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 8000;

export function createStream({ news, connection, open }: StreamEnds): Stream {
  let wanted: ReadonlyMap<string, string> = new Map();
  let wantsAllRanks = false;
  let current: { readonly events: EventSource; readonly runs: ReadonlySet<string>; readonly hasAllRanks: boolean } | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
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
    const runs = [...wanted.keys()].sort();
    for (const [run, position] of wanted) {
      if (!cursors.has(run)) cursors.set(run, position);
      if (!told.has(run)) told.set(run, cursors.get(run)!);
    }
    const query = new URLSearchParams(runs.map((run) => ["run", run]));
    for (const run of runs) query.append("since", cursors.get(run)!);
    if (wantsAllRanks) query.append("rank", "all");
    const events = open(`api/events?${query}`);
    current = { events, runs: new Set(runs), hasAllRanks: wantsAllRanks };
    listen(events);
  };

  const listen = (events: EventSource): void => {
    const on = <Data>(name: string, handle: (data: Data, positions: ReadonlyMap<string, string>) => void): void => {
      events.addEventListener(name, (event: MessageEvent<string>) => {
        if (current?.events !== events) return;
        const positions = positionsOf(event.lastEventId);
        for (const [run, position] of positions) if (wanted.has(run)) cursors.set(run, position);
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
      news({ type: "records", from, to, hasAllRanks: current!.hasAllRanks, ...data });
    });
    on<StatusEvent>("status", (data) => news({ type: "status", ...data }));
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
    want(positions, hasAllRanks) {
      wanted = positions;
      wantsAllRanks = hasAllRanks;
      for (const run of [...cursors.keys()]) {
        if (positions.has(run)) continue;
        cursors.delete(run);
        told.delete(run);
      }
      // News of runs and ranks that nobody wants any more do no harm; a new stream for each would.
      const isEnough = current !== null && (current.hasAllRanks || !hasAllRanks) && [...positions.keys()].every((run) => current!.runs.has(run));
      if (!isEnough) schedule(GATHER_MS);
    },
    heard(one) {
      if (one.type !== "records") return;
      told.set(one.run, one.to);
      cursors.set(one.run, one.to);
    },
    close() {
      isClosed = true;
      clearTimeout(timer);
      current?.events.close();
      window.removeEventListener("online", hurry);
      document.removeEventListener("visibilitychange", hurry);
    },
  };
}
