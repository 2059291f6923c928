import { expect, test } from "vitest";

import { createDetails, isWide } from "../../src/state/run-details.ts";
import type { Source } from "../../src/source/source.ts";
import type { MetricRow, RunDetail } from "../../src/wire.ts";

function row(name: string): MetricRow {
  return { name, axis: "step", ranks: [0], unit: null, goal: null, role: null, x: null, summary: null };
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
  const { details, asked } = detailsOf({ metrics: [row("a")], num_metrics: 100, sections: { metrics: 100 } }, [row("a"), row("b")]);
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
