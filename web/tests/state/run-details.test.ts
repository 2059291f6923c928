import { effect } from "@preact/signals";
import { expect, test } from "vitest";

import { createDetails, isWide } from "../../src/state/run-details.ts";
import type { Source } from "../../src/source/source.ts";
import type { MetricRow, RunDetail } from "../../src/wire.ts";

function row(name: string): MetricRow {
  return {
    name,
    axis: "step",
    ranks: [0],
    unit: null,
    goal: null,
    role: null,
    x: null,
    summary: null,
  };
}

function detailsOf(answer: Partial<RunDetail>, others: readonly MetricRow[]) {
  const asked: unknown[] = [];
  const source = {
    get: async (endpoint: string, _run: string, params: unknown) => {
      if (endpoint === "run") return answer;
      asked.push(params);
      return { metrics: others, total: 70, offset: 0 };
    },
  } as unknown as Source;
  return { details: createDetails(source, () => undefined), asked };
}

test("metrics that are found are listed with those of the answer, each once", async () => {
  const { details, asked } = detailsOf(
    { metrics: [row("a")], num_metrics: 100, sections: { metrics: 100 } },
    [row("a"), row("b")],
  );
  const detail = details.of("x");
  await expect.poll(() => detail.value).not.toBe(null);
  expect(isWide(detail.value!)).toBe(true);
  expect(await details.find("x", { find: "b" })).toBe(70);
  expect(asked).toEqual([{ find: "b" }]);
  expect(detail.value!.metrics.map(({ name }) => name)).toEqual(["a", "b"]);
});

test("a run whose answer lists all metrics is not wide, nor one of an older file", () => {
  expect(isWide({ metrics: [], num_metrics: 0, sections: {} } as unknown as RunDetail)).toBe(false);
  expect(isWide({ metrics: [] } as unknown as RunDetail)).toBe(false);
});

test("answers about several runs that come one after the other are told of once", async () => {
  const answers = new Map<string, (detail: RunDetail) => void>();
  const source = {
    get: (_endpoint: string, run: string) => new Promise((resolve) => answers.set(run, resolve)),
  } as unknown as Source;
  const details = createDetails(source, () => undefined);
  const told: number[] = [];
  effect(
    () => void told.push(["a", "b", "c"].filter((run) => details.of(run).value !== null).length),
  );
  for (const answer of answers.values()) {
    answer({ metrics: [row("loss")] } as unknown as RunDetail);
    await Promise.resolve();
  }
  await expect.poll(() => told.at(-1)).toBe(3);
  expect(told).toEqual([0, 3]);
});

test("a run that takes long does not hold back the others", async () => {
  const source = {
    get: (_endpoint: string, run: string) =>
      run === "slow" ? new Promise(() => undefined) : Promise.resolve({ metrics: [row("loss")] }),
  } as unknown as Source;
  const details = createDetails(source, () => undefined);
  const [slow, quick] = [details.of("slow"), details.of("quick")];
  await expect.poll(() => quick.value).not.toBe(null);
  expect(slow.value).toBe(null);
});

test("while runs are deleted none is asked for again, and afterwards those that are left", async () => {
  const asked: string[] = [];
  const source = {
    get: async (_endpoint: string, run: string) => {
      asked.push(run);
      return { metrics: [row("loss")] };
    },
  } as unknown as Source;
  const details = createDetails(source, () => undefined);
  for (const run of ["gone", "left"]) details.of(run);
  await expect.poll(() => details.known("left")).not.toBe(null);
  await new Promise((resolve) => setTimeout(resolve, 1100)); // each run is asked for once a second
  await details.hold(async () => {
    for (const run of ["gone", "left"]) details.refetch(run);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(asked).toEqual(["gone", "left"]);
    details.forget("gone");
  });
  expect(asked).toEqual(["gone", "left", "left"]);
});
