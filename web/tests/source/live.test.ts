import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { createLiveSource } from "../../src/source/live.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("findings are requested when the charts of a server that has read nothing yet are there", async () => {
  const asked: string[] = [];
  vi.stubGlobal("fetch", (address: string) => {
    asked.push(address);
    const ms = address.includes("group_curves") ? 5000 : 10;
    return new Promise((resolve) => setTimeout(() => resolve(new Response("{}")), ms));
  });
  const source = createLiveSource();
  void source.sweep.curves!({ metric: "loss" });
  void source.get("findings", "a");
  await vi.advanceTimersByTimeAsync(4900);
  expect(asked.length).toBe(1);
  await vi.advanceTimersByTimeAsync(1000);
  expect(asked[1]).toContain("api/runs/a/findings");
});

test("findings do not wait for ever for a request that hangs", async () => {
  const asked: string[] = [];
  vi.stubGlobal("fetch", (address: string) => {
    asked.push(address);
    return new Promise(() => undefined);
  });
  const source = createLiveSource();
  void source.sweep.curves!({ metric: "loss" });
  void source.get("findings", "a");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked.length).toBe(2);
});
