import { afterEach, beforeEach, expect, test, vi } from "vitest";

import type { Update, Subscription } from "../../src/source/source.ts";
import { createStream } from "../../src/source/event-stream.ts";
import type { Stream } from "../../src/source/event-stream.ts";

class Opened extends EventTarget {
  static readonly CLOSED = 2;
  readyState = 1;
  onerror: (() => void) | null = null;
  readonly address: string;

  constructor(address: string) {
    super();
    this.address = address;
  }

  close(): void {
    this.readyState = Opened.CLOSED;
  }

  say(name: string, data: unknown): void {
    this.dispatchEvent(
      Object.assign(new Event(name), { data: JSON.stringify(data), lastEventId: "" }),
    );
  }
}

let opened: Opened[] = [];
let resumeAfter: Update[] = [];
let stream: Stream;

function subscription(fields: Partial<Subscription> = {}): Subscription {
  return {
    positions: new Map([["a", "a:loop.1.0.4"]]),
    hasAllRanks: false,
    hasReadings: false,
    ...fields,
  };
}

function asksForReadings(): boolean[] {
  return opened.map(({ address }) => address.includes("live=1"));
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("window", new EventTarget());
  vi.stubGlobal("document", new EventTarget());
  vi.stubGlobal("EventSource", Opened);
  [opened, resumeAfter] = [[], []];
  stream = createStream({
    update: (update) => resumeAfter.push(update),
    connection: () => undefined,
    open: (address) => {
      const events = new Opened(address);
      opened.push(events);
      return events as unknown as EventSource;
    },
  });
});

afterEach(() => stream.close());

test("readings are asked for when they are wanted, and told", () => {
  stream.subscribe(subscription());
  vi.advanceTimersByTime(1000);
  stream.subscribe(subscription({ hasReadings: true }));
  vi.advanceTimersByTime(1000);
  expect(asksForReadings()).toEqual([false, true]);
  expect(opened[0]!.readyState).toBe(Opened.CLOSED);
  opened[1]!.say("live", { run: "a", machines: [] });
  expect(resumeAfter).toEqual([{ type: "live", run: "a", machines: [] }]);
});

test("who turns a page and comes back keeps the stream", () => {
  stream.subscribe(subscription({ hasReadings: true }));
  vi.advanceTimersByTime(1000);
  stream.subscribe(subscription());
  vi.advanceTimersByTime(2000);
  stream.subscribe(subscription({ hasReadings: true }));
  vi.advanceTimersByTime(60_000);
  expect(asksForReadings()).toEqual([true]);
});

test("after a while nobody is told of what nobody wants", () => {
  stream.subscribe(subscription({ hasReadings: true }));
  vi.advanceTimersByTime(1000);
  stream.subscribe(subscription());
  vi.advanceTimersByTime(60_000);
  expect(asksForReadings()).toEqual([true, false]);
});
