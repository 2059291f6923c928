import { expect, test } from "vitest";

import { groupOf, groupsOf, metricsOf } from "../../src/state/metrics.ts";
import type { MetricRow, RunDetail } from "../../src/wire.ts";

function row(name: string, more: Partial<MetricRow> = {}): MetricRow {
  return { name, axis: "step", ranks: [0], unit: null, goal: null, role: null, x: null, summary: null, ...more };
}

function detail(...metrics: MetricRow[]): RunDetail {
  return { metrics } as unknown as RunDetail;
}

test.each([["train/loss", "train"], ["train.loss", "train"], ["loss", "metrics"], ["/odd", "metrics"], ["a.b/c", "a"]])("%s is in group %s", (name, group) => {
  expect(groupOf(name)).toBe(group);
});

test("the metrics of several runs are joined by name and axis", () => {
  const found = metricsOf([detail(row("loss"), row("acc")), null, detail(row("loss", { unit: "nats", ranks: [1] }), row("loss", { axis: "epoch" }))]);
  expect(found.map(({ name, axis }) => `${name} ${axis}`)).toEqual(["loss step", "loss epoch", "acc step"]);
  expect(found[0]).toMatchObject({ unit: "nats", ranks: [0, 1], isAmbiguous: true });
  expect(found[2]!.isAmbiguous).toBe(false);
});

test("groups come in the order people read them", () => {
  const names = ["gpu/0/power", "zeta/x", "loss", "eval/loss", "train/b10", "train/b9", "system/cpu_pct"];
  const groups = groupsOf(metricsOf([detail(...names.map((name) => row(name)), row("train/loss", { role: "loss" }))]));
  expect(groups.map(({ title }) => title)).toEqual(["train", "eval", "metrics", "zeta", "system", "gpu"]);
  expect(groups[0]!.metrics.map(({ name }) => name)).toEqual(["train/loss", "train/b9", "train/b10"]);
});
