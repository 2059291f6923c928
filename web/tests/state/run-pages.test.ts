import { computed, signal } from "@preact/signals";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { createArchiveSource } from "../../src/source/archive.ts";
import { SourceError } from "../../src/source/source.ts";
import type { RunsRequest, Source, Update } from "../../src/source/source.ts";
import { createRunPages, MOST_ROWS } from "../../src/state/run-pages.ts";
import type { ListRequest } from "../../src/state/run-pages.ts";
import { createRuns } from "../../src/state/runs.ts";
import { createView } from "../../src/state/view.ts";
import type { View } from "../../src/state/view.ts";
import { WIRE_VERSION } from "../../src/wire.ts";
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
      return Promise.resolve({
        rows: [{ id: "a" }],
        total: 1,
        offset: 0,

        groups: null,
      });
    },
  } as unknown as Source;
  const rows = signal<readonly RunRow[]>([]);
  const query = signal("not hidden");
  // As in the list of runs: what is asked for is made of rows too, as far as they name config keys.
  const request = computed(
    (): ListRequest => ({
      query: query.value,
      choice: {},
      group: rows.value.length > 99 ? "config.lr" : "",
    }),
  );
  const pages = createRunPages(source.runs, request, (list) => (rows.value = list.rows));
  await vi.advanceTimersByTimeAsync(5000);
  expect(pages.answer.value?.total).toBe(1);
  expect(asked.map((one) => one.query)).toEqual(["not hidden"]);
  query.value = "loss < 1";
  await vi.advanceTimersByTimeAsync(5000);
  expect(asked.map((one) => one.query)).toEqual(["not hidden", "loss < 1"]);
});

function emptyView(): View {
  vi.stubGlobal("window", { addEventListener: () => undefined });
  vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => undefined });
  return createView(
    { hash: "" } as Location,
    { replaceState: () => undefined, pushState: () => undefined } as unknown as History,
  );
}

function runRow(id: string, more: Partial<RunRow> = {}): RunRow {
  return {
    id,
    name: "run",
    project: "p",
    tags: [],
    status: { state: "finished" },
    summaries: {},
    config: {},
    problem: null,
    hidden: false,
    ...more,
  } as RunRow;
}

interface Store {
  readonly source: Source;
  readonly asked: RunsRequest[];
  /** The ids of the runs, which a test may change. */
  readonly ids: string[];
}

function storeOf(
  stored: number,
  answer: (request: RunsRequest) => object | Promise<never> = () => ({}),
): Store {
  const asked: RunsRequest[] = [];
  const ids = Array.from({ length: stored }, (_, index) => `run-${index}`);
  const runs = async (request: RunsRequest): Promise<unknown> => {
    asked.push(request);
    const { offset = 0, limit = 100 } = request;
    const found = request.query?.includes("text ~") === true ? ids.slice(0, 3) : ids;
    return {
      rows: found.slice(offset, offset + limit).map((id) => runRow(id)),
      total: found.length,
      offset,

      groups: null,
      ...(request.withProjects === true ? { stored: ids.length, projects: ["p", "q"] } : {}),
      ...(await answer(request)),
    };
  };
  return { asked, ids, source: { supportsQueries: true, runs } as unknown as Source };
}

test("of a long list the rows in view are asked for, and none twice", async () => {
  const { source, asked } = storeOf(MOST_ROWS + 10);
  const runs = createRuns(source, emptyView());
  await vi.advanceTimersByTimeAsync(3000);
  runs.wantLines(0, 40);
  await vi.advanceTimersByTimeAsync(3000);
  expect(asked.map(({ query, withProjects }) => [query, withProjects])).toEqual([
    ["not hidden", true],
  ]);
  expect([runs.numAll.value, runs.numFitting.value, runs.fitting.value.length]).toEqual([
    MOST_ROWS + 10,
    MOST_ROWS + 10,
    100,
  ]);
  expect(runs.projects.value).toEqual(["p", "q"]);
  runs.wantMany();
  await vi.advanceTimersByTimeAsync(3000);
  expect(asked.slice(1).map(({ offset, limit }) => [offset, limit])).toEqual([
    [100, 500],
    [600, 500],
    [1100, 500],
    [1600, 400],
  ]);
  expect(runs.fitting.value.length).toBe(MOST_ROWS);
});

test("a list of at most some thousands comes with all rows", async () => {
  const { source, asked } = storeOf(150);
  const runs = createRuns(source, emptyView());
  await vi.advanceTimersByTimeAsync(100);
  expect([runs.fitting.value.length, runs.numFitting.value]).toEqual([100, 150]);
  await vi.advanceTimersByTimeAsync(3000);
  expect(asked.map(({ offset }) => offset)).toEqual([0, 100]);
  expect(runs.fitting.value.length).toBe(150);
});

test("the last list stays until the answer to another filter comes, and a late answer to an older one is not taken", async () => {
  const waiting: (() => void)[] = [];
  const { source } = storeOf(150, ({ query }) =>
    query?.includes("slow") === true
      ? new Promise((resolve) => waiting.push(() => resolve({ total: 77 } as never)))
      : {},
  );
  const view = emptyView();
  const runs = createRuns(source, view);
  await vi.advanceTimersByTimeAsync(1000);
  view.filter.value = "slow";
  await vi.advanceTimersByTimeAsync(1000);
  expect([waiting.length, runs.numFitting.value, runs.isSettled.value]).toEqual([1, 150, false]);
  view.filter.value = "run";
  await vi.advanceTimersByTimeAsync(150);
  expect([runs.numFitting.value, runs.isSettled.value]).toEqual([3, true]);
  waiting[0]!();
  await vi.advanceTimersByTimeAsync(1000);
  expect(runs.numFitting.value).toBe(3);
});

test("a new run has the list asked for again; a row that changes replaces the one that is here", async () => {
  const { source, ids, asked } = storeOf(120);
  const runs = createRuns(source, emptyView());
  const tell = (news: Partial<Extract<Update, { type: "runs" }>>): void =>
    runs.apply({
      type: "runs",
      added: [],
      changed: [],
      removed: [],
      all: false,
      ...news,
    } as Update);
  await vi.advanceTimersByTimeAsync(1000);
  tell({ changed: [runRow("run-1", { step: 5 }), runRow("elsewhere")] });
  await vi.advanceTimersByTimeAsync(9000);
  runs.refresh();
  expect([runs.row("run-1")?.step, runs.row("elsewhere"), asked.length]).toEqual([5, undefined, 2]);
  ids.unshift("new");
  tell({ added: [runRow("new")] });
  await vi.advanceTimersByTimeAsync(2000);
  expect([
    runs.fitting.value[0]?.id,
    runs.numFitting.value,
    runs.fitting.value.length,
    asked.length,
  ]).toEqual(["new", 121, 121, 4]);
  ids.splice(2, 1);
  tell({ removed: ["run-1"] });
  expect([runs.numFitting.value, runs.fitting.value.some(({ id }) => id === "run-1")]).toEqual([
    120,
    false,
  ]);
  await vi.advanceTimersByTimeAsync(2000);
  expect(runs.fitting.value.map(({ id }) => id)).toEqual(ids);
});

test("no run is listed twice while a list that has become shorter is asked for again", async () => {
  let isStopped = false;
  const { source, ids } = storeOf(300, ({ offset }) =>
    isStopped && offset !== 0 ? new Promise(() => undefined) : {},
  );
  const runs = createRuns(source, emptyView());
  await vi.advanceTimersByTimeAsync(1000);
  isStopped = true;
  ids.shift();
  runs.reload();
  await vi.advanceTimersByTimeAsync(1000);
  const listed = runs.fitting.value.map(({ id }) => id);
  expect([runs.numFitting.value, new Set(listed).size]).toEqual([299, listed.length]);
});

test("runs of which only identity and status are known are counted", async () => {
  const { source } = storeOf(5, () => ({ unsummarised: 2 }));
  const runs = createRuns(source, emptyView());
  await vi.advanceTimersByTimeAsync(100);
  expect(runs.numUnsummarised.value).toBe(2);
});

test("a mistake in the query of the address leaves the list as it is without it", async () => {
  const { source } = storeOf(150, ({ query }) =>
    query?.includes("cofnig") === true
      ? Promise.reject(new SourceError("no field cofnig", 400))
      : {},
  );
  const view = emptyView();
  view.filter.value = "cofnig.lr < 1";
  const runs = createRuns(source, view);
  await vi.advanceTimersByTimeAsync(3000);
  expect([runs.fitting.value.length, runs.problem.value, runs.filterProblem.value]).toEqual([
    150,
    null,
    "no field cofnig",
  ]);
  view.filter.value = "config.lr < 1";
  await vi.advanceTimersByTimeAsync(3000);
  expect(runs.filterProblem.value).toBe(null);
});

test("groups with the same title are one", async () => {
  const groups = [
    { values: [1], count: 2 },
    { values: [1.0], count: 1 },
    { values: [null], count: 1 },
  ];
  const { source } = storeOf(4, ({ group }) => (group === undefined ? {} : { groups }));
  const view = emptyView();
  view.groupBy.value = "lr";
  const runs = createRuns(source, view);
  await vi.advanceTimersByTimeAsync(1000);
  expect(runs.groups.value.map(({ title, count, rows }) => [title, count, rows.length])).toEqual([
    ["1", 3, 3],
    ["not set", 1, 1],
  ]);
  expect([0, 1, 4, 5].map((index) => runs.lineAt(index)?.kind)).toEqual([
    "group",
    "run",
    "group",
    "run",
  ]);
  expect(runs.numLines.value).toBe(6);
});

test("a saved page filters, orders and groups the runs that are in it", async () => {
  const rows = [
    runRow("a", { name: "small", created: 3, config: { lr: 1 } }),
    runRow("b", { name: "large", created: 2, config: { lr: 0.1 }, project: "q" }),
    runRow("c", { name: "small", created: 1, config: { lr: 0.1 } }),
    runRow("d", { name: "gone", created: 4, hidden: true }),
  ];
  const source = createArchiveSource({
    wire: WIRE_VERSION,
    made: 0,
    runs: { rows, total: 4, offset: 0, groups: null },
    axes: {},
    responses: {},
    blobs: {},
    series: [],
    sweep: {},
    boards: [],
    board: null,
    problems: {},
  });
  const view = emptyView();
  const runs = createRuns(source, view);
  const listed = async (): Promise<string> => {
    await vi.advanceTimersByTimeAsync(1000);
    return runs.fitting.value.map(({ id }) => id).join("");
  };
  expect([await listed(), runs.numAll.value, runs.projects.value]).toEqual(["abc", 4, ["p", "q"]]);
  view.groupBy.value = "lr";
  expect([await listed(), runs.groups.value.map(({ title }) => title)]).toEqual([
    "bca",
    ["0.1", "1"],
  ]);
  view.groupBy.value = null;
  view.order.value = "name";
  expect(await listed()).toBe("bac");
  view.project.value = "p";
  view.filter.value = "SMALL";
  expect(await listed()).toBe("ac");
  view.text("hidden").value = "1";
  view.filter.value = "";
  expect(await listed()).toBe("dac");
  view.focus.value = "b";
  expect([await listed(), runs.focus.value?.id]).toEqual(["dac", "b"]);
  view.filter.value = "config.lr < 1";
  expect([await listed(), runs.filterProblem.value?.slice(0, 23)]).toEqual([
    "dac",
    "Queries need the server",
  ]);
});
