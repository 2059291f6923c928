import { signal } from "@preact/signals";
import { beforeEach, expect, test, vi } from "vitest";

import type { Update } from "../../src/source/source.ts";
import { createReadings } from "../../src/state/machine-readings.ts";
import type { Machine } from "../../src/wire.ts";

const page = Object.assign(new EventTarget(), { hidden: false });

function machine(t: number): Machine {
  return { node: "here", rank: 0, t, gpus: [], system: { cpu_pct: 5 } };
}

function told(...machines: Machine[]): Update {
  return { type: "live", run: "a", machines };
}

beforeEach(() => {
  vi.useFakeTimers();
  page.hidden = false;
  vi.stubGlobal("document", page);
});

test("the newest readings stand until nobody reads them", () => {
  const readings = createReadings(signal(false));
  expect(readings.of("a")).toEqual([]);
  readings.apply(told(machine(1)));
  readings.apply(told(machine(2)));
  expect(readings.of("a")).toEqual([machine(2)]);
  expect(readings.of("b")).toEqual([]);
  readings.apply(told());
  expect(readings.of("a")).toEqual([]);
});

test("readings that no longer come are not shown as those of now", () => {
  const readings = createReadings(signal(false));
  readings.apply(told(machine(1)));
  vi.advanceTimersByTime(4000);
  readings.apply(told(machine(5)));
  vi.advanceTimersByTime(4000);
  expect(readings.of("a")).toEqual([machine(5)]);
  vi.advanceTimersByTime(2000);
  expect(readings.of("a")).toEqual([]);
});

test("a pause holds them still, and what is old goes after it", () => {
  const isPaused = signal(false);
  const readings = createReadings(isPaused);
  readings.apply(told(machine(1)));
  isPaused.value = true;
  readings.apply(told(machine(2)));
  vi.advanceTimersByTime(60_000);
  expect(readings.of("a")).toEqual([machine(1)]);
  isPaused.value = false;
  vi.advanceTimersByTime(6000);
  expect(readings.of("a")).toEqual([]);
});

test("they are wanted while somebody shows them on a page that is seen", () => {
  const readings = createReadings(signal(false));
  expect(readings.isWanted.value).toBe(false);
  const [first, second] = [readings.watch(), readings.watch()];
  first();
  expect(readings.isWanted.value).toBe(true);
  page.hidden = true;
  page.dispatchEvent(new Event("visibilitychange"));
  expect(readings.isWanted.value).toBe(false);
  page.hidden = false;
  page.dispatchEvent(new Event("visibilitychange"));
  second();
  expect(readings.isWanted.value).toBe(false);
});
