/**
 * One stream per browser. A browser opens few connections to one server, and a stream takes one for good; so the tab that holds a lock keeps the
 * stream and tells the others. Where there are no locks (pages not from this machine and without TLS), each tab has a stream of its own.
 */

import { signal } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";

import type { Connection, UpdateFeed, Update, Source, Subscription } from "./source.ts";
import { createStream } from "./event-stream.ts";
import type { Stream } from "./event-stream.ts";

export interface SharedStream {
  readonly connection: ReadonlySignal<Connection>;
  readonly follow: Source["follow"];
}

type Message =
  | { readonly type: "want"; readonly tab: string; readonly subscription: Subscription }
  | { readonly type: "gone"; readonly tab: string }
  | { readonly type: "led"; readonly connection: Connection }
  | { readonly type: "update"; readonly update: Update };

const ANNOUNCE_MS = 30_000;
/** Browsers slow the timers of hidden tabs down to one a minute. */
const FORGET_MS = 180_000;

export function createSharedStream(): SharedStream {
  const connection = signal<Connection>("connecting");
  return {
    connection,
    follow: (listener) =>
      canShare() ? sharedFeed(listener, connection) : ownFeed(listener, connection),
  };
}

function canShare(): boolean {
  return "locks" in navigator && "BroadcastChannel" in window;
}

const open = (address: string): EventSource => new EventSource(address);

function ownFeed(
  listener: (update: Update) => void,
  connection: { value: Connection },
): UpdateFeed {
  return createStream({
    open,
    update: listener,
    connection: (state) => (connection.value = state),
  });
}

function sharedFeed(
  listener: (update: Update) => void,
  connection: { value: Connection },
): UpdateFeed {
  const name = `epochal ${new URL(".", document.baseURI).href}`;
  const channel = new BroadcastChannel(name);
  const tab = Math.random().toString(36).slice(2);
  const ended = new AbortController();
  const others = new Map<
    string,
    { readonly subscription: Subscription; readonly seenAt: number }
  >();
  let own: Subscription = { positions: new Map(), hasAllRanks: false, hasReadings: false };
  let isTold = false;
  let stream: Stream | null = null;
  /** What the stream of another tab has told, for the day when this one takes over. */
  const told = new Map<string, Update>();

  const tell = (message: Message): void => channel.postMessage(message);
  const announce = (): void => {
    if (!isTold) return;
    if (stream === null) tell({ type: "want", tab, subscription: own });
    else subscribeAll();
  };

  const subscribeAll = (): void => {
    const oldest = performance.now() - FORGET_MS;
    for (const [other, { seenAt }] of others) if (seenAt < oldest) others.delete(other);
    const all = [...[...others.values()].map(({ subscription }) => subscription), own];
    stream?.subscribe({
      positions: new Map(all.flatMap(({ positions }) => [...positions])),
      hasAllRanks: all.some(({ hasAllRanks }) => hasAllRanks),
      hasReadings: all.some(({ hasReadings }) => hasReadings),
    });
  };

  const lead = (): Promise<void> => {
    stream = createStream({
      open,
      update: (update) => {
        // Copying a message for nobody takes as long as decoding it.
        if (others.size > 0) tell({ type: "update", update });
        listener(update);
      },
      connection: (state) => {
        connection.value = state;
        tell({ type: "led", connection: state });
      },
    });
    for (const update of told.values()) stream.resumeAfter(update);
    told.clear();
    // What this tab wants is known once it has its list; a stream before that would be opened twice.
    if (isTold || others.size > 0) subscribeAll();
    tell({ type: "led", connection: connection.value });
    return new Promise((resolve) => ended.signal.addEventListener("abort", () => resolve()));
  };

  channel.onmessage = ({ data }: MessageEvent<Message>) => {
    if (data.type === "want")
      others.set(data.tab, { subscription: data.subscription, seenAt: performance.now() });
    if (data.type === "gone") others.delete(data.tab);
    if ((data.type === "want" || data.type === "gone") && stream !== null) subscribeAll();
    if (stream !== null) return;
    if (data.type === "led") {
      connection.value = data.connection;
      announce();
    }
    if (data.type === "update") {
      connection.value = "live";
      if (data.update.type === "records") told.set(data.update.run, data.update);
      listener(data.update);
    }
  };
  const leave = (): void => tell({ type: "gone", tab });
  window.addEventListener("pagehide", leave);
  const announcing = setInterval(announce, ANNOUNCE_MS);
  navigator.locks.request(name, { signal: ended.signal }, lead).catch((error: unknown) => {
    if (!(error instanceof DOMException && error.name === "AbortError")) throw error;
  });

  return {
    subscribe(subscription) {
      own = subscription;
      isTold = true;
      announce();
    },
    close() {
      clearInterval(announcing);
      window.removeEventListener("pagehide", leave);
      leave();
      stream?.close();
      ended.abort();
      channel.close();
    },
  };
}
