import { expect, test } from "vitest";

import { parseBrushes } from "../../src/chart/index.ts";
import { brushQuery, keptRows } from "../../src/panels/compare-brushes.ts";
import {
  columnOf,
  compareValues,
  differingKeys,
  meanOf,
  sortedBy,
  statisticOf,
} from "../../src/panels/compare-columns.ts";
import type { Column } from "../../src/panels/compare-columns.ts";
import { bestFirst, firstKeys, statisticsText } from "../../src/panels/compare-pictures.tsx";
import { countedRows } from "../../src/panels/parts/unfinished.tsx";
import type { Importance, Parameter, RunRow, MetricSummary } from "../../src/wire.ts";

function row(id: string, config: Record<string, unknown>): RunRow {
  return {
    id,
    config,
    name: id,
    project: "p",
    status: { state: "finished", text: "finished", reason: null, since: null },
    created: 0,
    updated: 90,
    attempts: 1,
    step: 10,
    epoch: null,
    total_steps: null,
    num_epochs: null,
    records: 0,
    damaged: 0,
    tags: [],
    notes: null,
    group: null,
    job_type: null,
    owner: null,
    fork: null,
    hidden: false,
    problem: null,
    summary: {},
    summaries: {},
    folder: "",
    tracker: null,
    open_errors: null,
    open_warnings: null,
    is_partly_watched: false,
    is_summarised: true,
    ends_at: null,
    host: null,
    phase: null,
    unfinished: null,
  } as unknown as RunRow;
}

function summary(change: Partial<MetricSummary>): MetricSummary {
  return {
    count: 1,
    nonfinite: 0,
    last: 1,
    last_nonfinite: null,
    last_x: 0,
    min: 1,
    min_x: 0,
    max: 1,
    max_x: 0,
    mean: 1,
    best: null,
    best_x: null,
    ...change,
  };
}

const ROWS = [
  row("a", { lr: 0.1, seed: 1, only: 1 }),
  row("b", { lr: 0.01, seed: 2 }),
  row("c", { lr: 0.1, seed: 3 }),
];
const NONE = { summaries: new Map(), statistic: "last" } as const;

function column(id: string): Column {
  return columnOf(id, NONE)!;
}

test("columns are facts, configuration keys and metrics; others are not known", () => {
  expect(column("fact:duration").textOf(ROWS[0]!)).toBe("1m 30s");
  expect(column("config:lr").valueIn(ROWS[1]!)).toBe(0.01);
  const summaries = new Map([["a", { "eval/loss": summary({ best: 0.5 }) }]]);
  expect(columnOf("metric:eval/loss", { summaries, statistic: "best" })!.valueIn(ROWS[0]!)).toBe(
    0.5,
  );
  expect(
    columnOf("metric:eval/loss", { summaries, statistic: "best" })!.valueIn(ROWS[1]!),
  ).toBeNull();
  expect(columnOf("fact:nonsense", NONE)).toBeNull();
  expect(columnOf("nonsense", NONE)).toBeNull();
});

test("a metric whose last value is not finite says which it is", () => {
  expect(statisticOf(summary({ last: null, last_nonfinite: "nan" }), "last")).toBe("nan");
  expect(statisticOf(summary({ best: null, last: 2 }), "best")).toBe(2);
});

test("keys that were varied come before keys that only some runs have", () => {
  expect(differingKeys(["only", "lr", "seed"], ROWS)).toEqual(["lr", "seed", "only"]);
  expect(differingKeys(["lr"], [ROWS[0]!, ROWS[2]!])).toEqual([]);
});

test("rows are sorted by any column, what is missing last either way", () => {
  const order = (by: string): string =>
    sortedBy(ROWS, by, column)
      .map(({ id }) => id)
      .join("");
  expect(order("config:lr")).toBe("bac");
  expect(order("-config:seed")).toBe("cba");
  expect(order("config:only")).toBe("abc");
  expect(order("-config:only")).toBe("abc");
  expect(compareValues("lr-10", "lr-9", false)).toBeGreaterThan(0);
  expect([compareValues(1, "nan", false), compareValues(1, "nan", true)]).toEqual([-1, -1]);
});

test("a group amounts to its mean and deviation", () => {
  expect(meanOf(ROWS, column("config:seed")).half).toBeCloseTo(2.4841, 4);
  expect(meanOf([...ROWS, ...ROWS, ...ROWS], column("config:seed")).half).toBeCloseTo(0.6657, 4);
  expect(meanOf(ROWS.slice(0, 1), column("config:seed"))).toEqual({ num: 1, mean: 1, half: 0 });
  expect(meanOf(ROWS, column("config:nothing")).num).toBe(0);
});

test("runs that have not finished are left out, unless they are included or no other has a value", () => {
  const [done, going] = [
    { ...ROWS[0]!, unfinished: null },
    { ...ROWS[0]!, unfinished: "running, 5 % of its steps" },
  ];
  expect(countedRows([done, going], false)).toEqual([done]);
  expect(countedRows([done, going], true)).toEqual([done, going]);
  expect(countedRows([done, going, going], false, (row) => row === going).length).toBe(3);
  expect(countedRows([going], false)).toEqual([going]);
});

test("the first axes are the keys that matter, the most important beside the metric; never the seed, the status or the duration", () => {
  const rank = (key: string, verdict: string): unknown => ({ key, same_as: [], verdict });
  const ranking = {
    parameters: [
      rank("lr", "matters"),
      rank("wd", "matters"),
      rank("seed", "no effect seen"),
      rank("opt", "no effect seen"),
    ],
  } as unknown as Importance;
  expect(firstKeys(ranking, ["seed", "lr"], ROWS)).toEqual(["opt", "wd", "lr"]);
  expect(firstKeys(null, ["only", "lr", "seed"], ROWS)).toEqual(["only", "lr"]);
});

test("what is kept on axes is kept in rows, and said as a query", () => {
  const rows = [
    row("a", { lr: 0.1, opt: "adam", amp: true }),
    row("b", { lr: 0.01, opt: "sgd", amp: false }),
    row("c", { lr: 0.1 }),
  ];
  const brushes = parseBrushes('{"config:lr":[0.05,1],"config:opt":["adam",null]}');
  expect(keptRows(rows, brushes, column).map(({ id }) => id)).toEqual(["a", "c"]);
  expect(brushQuery(rows, brushes, "last")).toBe(
    'config.lr >= 0.05 and config.lr <= 1 and (config.opt in ["adam"] or not exists(config.opt))',
  );
  expect(
    brushQuery(rows, parseBrushes('{"config:lr":["0.1"],"config:amp":["true"]}'), "last"),
  ).toBe("config.lr in [0.1] and config.amp in [true]");
  expect(brushQuery(rows, parseBrushes('{"metric:eval/loss":[1,2]}'), "last")).toBe(
    "summary.eval/loss.last >= 1 and summary.eval/loss.last <= 2",
  );
  expect(brushQuery(rows, parseBrushes('{"metric:eval/loss":["nan"]}'), "last")).toBeNull();
});

test("a relation is told by levels and by ranks", () => {
  const row = { score: 0.7234, spearman: -0.013, verdict: "matters" } as unknown as Parameter;
  expect(statisticsText(row, 0.5)).toBe("explains 72 % · Spearman ρ = −0.01");
  expect(statisticsText(undefined, 0.5)).toBe("Spearman ρ = 0.50");
  expect(statisticsText(undefined, null)).toBe("");
});

test("runs go to the charts from the best to the worst, those that are not finite last", () => {
  const summaries = new Map([
    ["a", { loss: summary({ last: null, last_nonfinite: "nan" }) }],
    ["b", { loss: summary({ last: 3 }) }],
    ["c", { loss: summary({ last: 2 }) }],
  ]);
  const metric = columnOf("metric:loss", { summaries, statistic: "last" })!;
  const order = (goal: "min" | "max" | null): string =>
    bestFirst(ROWS, metric, goal)
      .map(({ id }) => id)
      .join("");
  expect([order("min"), order("max"), order(null)]).toEqual(["cba", "bca", "abc"]);
});
