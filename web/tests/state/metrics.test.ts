import { expect, test } from "vitest";

import {
  groupOf,
  isClosedAtFirst,
  metricsOf,
  sectionsOf,
  setNamesOf,
} from "../../src/state/metrics.ts";
import type { MetricRow, RunDetail } from "../../src/wire.ts";

function row(name: string, more: Partial<MetricRow> = {}): MetricRow {
  return {
    name,
    axis: "step",
    ranks: [0],
    unit: null,
    goal: null,
    role: null,
    x: null,
    summary: null,
    ...more,
  };
}

function detail(...metrics: MetricRow[]): RunDetail {
  return { metrics } as unknown as RunDetail;
}

test.each([
  ["train/loss", "train"],
  ["train.loss", "train"],
  ["loss", "metrics"],
  ["/odd", "metrics"],
  ["a.b/c", "a"],
])("%s is in group %s", (name, group) => {
  expect(groupOf(name)).toBe(group);
});

test("the metrics of several runs are joined by name, whatever axes they were logged along", () => {
  const found = metricsOf([
    detail(row("loss"), row("acc")),
    null,
    detail(row("loss", { unit: "nats", ranks: [1] }), row("loss", { axis: "epoch" })),
  ]);
  expect(found.map(({ name, axis }) => `${name} ${axis}`)).toEqual(["loss step", "acc step"]);
  expect(found[0]).toMatchObject({ unit: "nats", ranks: [0, 1] });
});

test("groups come in the order people read them", () => {
  const names = [
    "gpu/0/power",
    "zeta/x",
    "loss",
    "eval/loss",
    "train/b10",
    "train/b9",
    "system/cpu_pct",
  ];
  const groups = sectionsOf(
    metricsOf([detail(...names.map((name) => row(name)), row("train/loss", { role: "loss" }))]),
  );
  expect(groups.map(({ title }) => title)).toEqual([
    "train",
    "eval",
    "metrics",
    "zeta",
    "system",
    "gpu",
  ]);
  expect(groups[0]!.metrics.map(({ name }) => name)).toEqual([
    "train/loss",
    "train/b9",
    "train/b10",
  ]);
});

function named(...names: string[]): ReturnType<typeof metricsOf> {
  return metricsOf([detail(...names.map((name) => row(name)))]);
}

test("a large section has sections inside by the next part of names, numbers in their order", () => {
  const layers = Array.from({ length: 12 }, (_, layer) =>
    ["attn", "mlp", "norm"].map((part) => `layers/${layer}/${part}`),
  ).flat();
  const [section] = sectionsOf(named(...layers, "layers/total"));
  expect(section).toMatchObject({ title: "layers", count: 37 });
  expect(section!.sections.map(({ title }) => title).slice(0, 3)).toEqual(["0", "1", "2"]);
  expect(section!.sections.at(-1)).toMatchObject({ title: "11", path: "layers/11", count: 3 });
  expect(section!.metrics.map(({ name }) => name)).toEqual(["layers/total"]);
});

test("names without a separator are split where digits or underscores begin, small sections stay whole", () => {
  const flat = Array.from({ length: 40 }, (_, index) => `${["grad", "act"][index % 2]}_${index}`);
  const [section] = sectionsOf(named(...flat));
  expect(section!.sections.map(({ title, count }) => `${title} ${count}`)).toEqual([
    "act 20",
    "grad 20",
  ]);
  expect(sectionsOf(named("a/b/c", "a/b/d"))[0]!.sections).toEqual([]);
});

test("with many metrics sections inside others are closed at first", () => {
  const place = { depth: 1, index: 0, count: 3 };
  expect(isClosedAtFirst("layers/0", { ...place, total: 40 })).toBe(false);
  expect(isClosedAtFirst("layers/0", { ...place, total: 400 })).toBe(true);
  expect(isClosedAtFirst("gpu", { depth: 0, index: 0, count: 3, total: 5 })).toBe(true);
});

test("how long something took comes after what was measured", () => {
  const [section] = sectionsOf(named("epoch/duration_s", "epoch/loss"));
  expect(section!.metrics.map(({ name }) => name)).toEqual(["epoch/loss", "epoch/duration_s"]);
});

test("the section with the loss comes first, and that of epoch times after what was logged", () => {
  const metrics = metricsOf([
    detail(
      row("epoch/duration_s"),
      row("zeta/x"),
      row("val/loss", { role: "eval_loss" }),
      row("loss", { role: "loss" }),
      row("gpu/0/power"),
    ),
  ]);
  expect(sectionsOf(metrics).map(({ title }) => title)).toEqual([
    "metrics",
    "val",
    "zeta",
    "epoch",
    "gpu",
  ]);
});

test("numbers that a program set and no run logged have names of their own", () => {
  const set = {
    ...detail(row("loss")),
    summary: { loss: 1, best_acc: 0.9, note: "text", test: { acc: 0.8 } },
  };
  expect(setNamesOf([set, null])).toEqual(["best_acc", "test.acc"]);
});
