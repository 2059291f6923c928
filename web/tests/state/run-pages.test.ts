import { computed, signal } from "@preact/signals";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import type { RunsRequest, Source } from "../../src/source/source.ts";
import { createRunPages } from "../../src/state/run-pages.ts";
import type { ListRequest } from "../../src/state/run-pages.ts";
import type { RunRow } from "../../src/wire.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("an answer does not have the list asked for again", async () => {
  const asked: RunsRequest[] = [];
  const source = {
    runs: (request: RunsRequest) => {
      asked.push(request);
      return Promise.resolve({ rows: [{ id: "a" }], total: 1, offset: 0, pending: 0, groups: null });
    },
  } as unknown as Source;
  const rows = signal<readonly RunRow[]>([]);
  const query = signal("not hidden");
  // As in the list of runs: what is asked for is made of rows too, as far as they name config keys.
  const request = computed((): ListRequest => ({ isOn: true, query: query.value, order: "", group: rows.value.length > 99 ? "config.lr" : "" }));
  const pages = createRunPages(source, request, [], (found) => (rows.value = [...found]));
  await vi.advanceTimersByTimeAsync(5000);
  expect(pages.total.value).toBe(1);
  expect(asked.map((one) => one.query)).toEqual(["not hidden"]);
  query.value = "loss < 1";
  await vi.advanceTimersByTimeAsync(5000);
  expect(asked.map((one) => one.query)).toEqual(["not hidden", "loss < 1"]);
});
