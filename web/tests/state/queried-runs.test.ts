import { signal } from "@preact/signals";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { createQueriedRuns } from "../../src/state/queried-runs.ts";
import type { RunsRequest, Source } from "../../src/source/source.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A server whose answers come in turn, the last one for good. */
function queriedRuns(answers: readonly { readonly ids: readonly string[]; readonly pending: number }[]) {
  const asked: string[] = [];
  const source = {
    runs: async ({ query }: RunsRequest) => {
      const { ids, pending } = answers[Math.min(asked.length, answers.length - 1)]!;
      asked.push(query!);
      return { rows: ids.map((id) => ({ id })), total: ids.length, offset: 0, pending };
    },
  } as unknown as Source;
  const query = signal("");
  const list = signal(1);
  return { asked, query, list, queried: createQueriedRuns(source, query, list) };
}

test("a query that the server cannot answer yet for all runs is asked again until it can", async () => {
  const { asked, query, queried } = queriedRuns([{ ids: ["a"], pending: 90 }, { ids: ["a", "b"], pending: 40 }, { ids: ["a", "b", "c"], pending: 0 }]);
  query.value = "summary.loss.mean@10 < 2";
  await vi.advanceTimersByTimeAsync(300);
  expect([queried.value.ids?.size, queried.value.pending]).toEqual([1, 90]);
  await vi.advanceTimersByTimeAsync(10_000);
  expect([queried.value.ids?.size, queried.value.pending, asked.length]).toEqual([3, 0, 3]);
});

test("a query that was cleared meanwhile is not asked again, and its answer is not taken", async () => {
  const { asked, query, queried } = queriedRuns([{ ids: ["a"], pending: 90 }]);
  query.value = "summary.loss.mean@10 < 2";
  await vi.advanceTimersByTimeAsync(300);
  query.value = "";
  await vi.advanceTimersByTimeAsync(10_000);
  expect(queried.value).toEqual({ query: "", ids: null, pending: 0, problem: null });
  expect(asked.length).toBe(1);
});

test("a list that changes has the query asked again", async () => {
  const { asked, query, list } = queriedRuns([{ ids: ["a"], pending: 0 }]);
  query.value = "config.lr < 1";
  await vi.advanceTimersByTimeAsync(300);
  list.value = 1;
  await vi.advanceTimersByTimeAsync(300);
  list.value = 2;
  await vi.advanceTimersByTimeAsync(300);
  expect(asked.length).toBe(2);
});
