import { computed, signal } from "@preact/signals";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { SourceError } from "../../src/source/source.ts";
import type { RunsRequest, Source } from "../../src/source/source.ts";
import { createRunPages } from "../../src/state/run-pages.ts";
import type { ListRequest } from "../../src/state/run-pages.ts";
import { createRuns, MOST_ROWS } from "../../src/state/runs.ts";
import { createView } from "../../src/state/view.ts";
import type { View } from "../../src/state/view.ts";
import type { RunRow } from "../../src/wire.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

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
  const pages = createRunPages(source, request, [], (list) => (rows.value = list.rows));
  await vi.advanceTimersByTimeAsync(5000);
  expect(pages.total.value).toBe(1);
  expect(asked.map((one) => one.query)).toEqual(["not hidden"]);
  query.value = "loss < 1";
  await vi.advanceTimersByTimeAsync(5000);
  expect(asked.map((one) => one.query)).toEqual(["not hidden", "loss < 1"]);
});

function emptyView(): View {
  vi.stubGlobal("window", { addEventListener: () => undefined });
  return createView({ hash: "" } as Location, { replaceState: () => undefined } as unknown as History);
}

function storeOf(stored: number): { readonly source: Source; readonly asked: RunsRequest[] } {
  const asked: RunsRequest[] = [];
  const runs = (request: RunsRequest): Promise<unknown> => {
    asked.push(request);
    const total = request.query === undefined ? stored : stored - 1;
    const rows = Array.from({ length: Math.min(request.limit ?? 100, total - (request.offset ?? 0)) }, (_, index) => ({ id: `run-${(request.offset ?? 0) + index}`, name: "run", project: "p", tags: [], status: { state: "finished" }, summaries: {}, config: {}, problem: null, hidden: false }));
    return Promise.resolve({ rows, total, offset: request.offset ?? 0, pending: 0, groups: null, ...(request.withProjects === true ? { stored, projects: ["p", "q"] } : {}) });
  };
  return { asked, source: { supportsQueries: true, runs } as unknown as Source };
}

test("the first answer is the beginning of a long list, and nothing is asked twice", async () => {
  const { source, asked } = storeOf(MOST_ROWS + 10);
  const runs = createRuns(source, emptyView());
  await vi.advanceTimersByTimeAsync(3000);
  runs.wantLines(0, 40);
  await vi.advanceTimersByTimeAsync(3000);
  expect(asked.map(({ query, withProjects }) => [query, withProjects])).toEqual([["not hidden", true]]);
  expect([runs.numAll.value, runs.numFitting.value, runs.fitting.value.length]).toEqual([MOST_ROWS + 10, MOST_ROWS + 9, 100]);
  expect(runs.projects.value).toEqual(["p", "q"]);
});

test("a short list is completed with the runs that the first answer left out", async () => {
  const { source, asked } = storeOf(150);
  const runs = createRuns(source, emptyView());
  await vi.advanceTimersByTimeAsync(3000);
  expect(asked.map(({ query, offset }) => [query, offset])).toEqual([["not hidden", 0], [undefined, 0]]);
  expect(runs.all.value.length).toBe(150);
});

test("all runs that fit are counted before all of their rows have come", async () => {
  const { source } = storeOf(1000);
  const slow = { ...source, runs: (request: RunsRequest) => ((request.offset ?? 0) > 0 || request.query === undefined ? new Promise(() => undefined) : source.runs(request)) } as Source;
  const view = emptyView();
  const runs = createRuns(slow, view);
  await vi.advanceTimersByTimeAsync(1000);
  expect([runs.fitting.value.length, runs.numFitting.value]).toEqual([100, 999]);
  // Another filter: nothing is known of it but the rows that are here.
  view.filter.value = "run";
  expect(runs.numFitting.value).toBe(100);
});

test("a mistake in the query of the address leaves the list whole", async () => {
  const { source, asked } = storeOf(150);
  const strict = { ...source, runs: (request: RunsRequest) => (request.query?.includes("cofnig") === true ? Promise.reject(new SourceError("no field cofnig", 400)) : source.runs(request)) } as Source;
  const view = emptyView();
  view.filter.value = "cofnig.lr < 1";
  view.filterMode.value = "query";
  const runs = createRuns(strict, view);
  await vi.advanceTimersByTimeAsync(3000);
  expect([runs.all.value.length, runs.problem.value, runs.filterProblem.value]).toEqual([150, null, "no field cofnig"]);
  expect(asked.length).toBeGreaterThan(0);
});
