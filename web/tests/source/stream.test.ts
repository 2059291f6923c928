import { afterEach, beforeEach, expect, test, vi } from "vitest";

import type { News, Wants } from "../../src/source/source.ts";
import { createStream } from "../../src/source/stream.ts";
import type { Stream } from "../../src/source/stream.ts";

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
    this.dispatchEvent(Object.assign(new Event(name), { data: JSON.stringify(data), lastEventId: "" }));
  }
}

let opened: Opened[] = [];
let heard: News[] = [];
let stream: Stream;

function wants(fields: Partial<Wants> = {}): Wants {
  return { positions: new Map([["a", "a:loop.1.0.4"]]), hasAllRanks: false, hasReadings: false, ...fields };
}

function asksForReadings(): boolean[] {
  return opened.map(({ address }) => address.includes("live=1"));
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("window", new EventTarget());
  vi.stubGlobal("document", new EventTarget());
  vi.stubGlobal("EventSource", Opened);
  [opened, heard] = [[], []];
  stream = createStream({
    news: (news) => heard.push(news),
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
  stream.want(wants());
  vi.advanceTimersByTime(1000);
  stream.want(wants({ hasReadings: true }));
  vi.advanceTimersByTime(1000);
  expect(asksForReadings()).toEqual([false, true]);
  expect(opened[0]!.readyState).toBe(Opened.CLOSED);
  opened[1]!.say("live", { run: "a", machines: [] });
  expect(heard).toEqual([{ type: "live", run: "a", machines: [] }]);
});

test("who turns a page and comes back keeps the stream", () => {
  stream.want(wants({ hasReadings: true }));
  vi.advanceTimersByTime(1000);
  stream.want(wants());
  vi.advanceTimersByTime(2000);
  stream.want(wants({ hasReadings: true }));
  vi.advanceTimersByTime(60_000);
  expect(asksForReadings()).toEqual([true]);
});

test("after a while nobody is told of what nobody wants", () => {
  stream.want(wants({ hasReadings: true }));
  vi.advanceTimersByTime(1000);
  stream.want(wants());
  vi.advanceTimersByTime(60_000);
  expect(asksForReadings()).toEqual([true, false]);
});
