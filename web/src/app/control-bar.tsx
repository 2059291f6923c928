/** The choices that all charts follow: what x is, how smooth lines are, how groups are drawn. */

import type { JSX } from "preact";

import type { SmoothingKind } from "../chart/index.ts";
import type { Page } from "../state/page.ts";
import { X_KINDS } from "../state/view.ts";
import type { Centre, SpreadChoice, View } from "../state/view.ts";
import { Menu } from "../ui/menu.tsx";
import type { MenuItem } from "../ui/menu.tsx";
import { Segmented } from "../ui/segmented.tsx";
import { Slider } from "../ui/slider.tsx";
import type { XKind } from "../wire.ts";

const X_NAMES: Readonly<Record<XKind, string>> = { step: "Step", epoch: "Epoch", tokens: "Tokens", wall: "Time", relative: "Elapsed", progress: "Progress" };
const BANDS: readonly { readonly value: SpreadChoice; readonly label: string; readonly short: string }[] = [
  { value: "std", label: "± standard deviation", short: "± std" },
  { value: "stderr", label: "± standard error", short: "± SE" },
  { value: "ci", label: "95 % interval of the mean", short: "95 %" },
  { value: "iqr", label: "Quartiles", short: "quartiles" },
  { value: "minmax", label: "Smallest to largest", short: "range" },
  { value: "line", label: "No band", short: "" },
];
const SMOOTHINGS: readonly (readonly [SmoothingKind, string])[] = [
  ["ema", "Exponential average over points"],
  ["time-ema", "Exponential average over x"],
  ["gaussian", "Gaussian"],
  ["mean", "Running mean"],
];
const SMOOTHEST = 0.99;

export function ControlBar({ page }: { readonly page: Page }): JSX.Element {
  const { view } = page;
  return (
    <div class="view-bar" role="toolbar" aria-label="View">
      <Segmented label="X axis" choices={X_KINDS.map((value) => ({ value, label: X_NAMES[value] }))} value={view.x.value} onChange={(value) => setX(page, value)} />
      <span class="view-smooth">
        <Slider label="Smooth" min={0} max={SMOOTHEST} step={0.01} value={view.smoothness.value} text={view.smoothness.value.toFixed(2)}
          onChange={(value) => (view.smoothness.value = value)} />
        <Menu label="How lines are smoothed" items={SMOOTHINGS.map(([kind, label]) => ({ label, isOn: view.smoothing.value === kind, run: () => (view.smoothing.value = kind) }))}>▾</Menu>
      </span>
      {view.groupBy.value !== null && (
        <Menu label={`How groups are drawn: ${groupText(view)}`} items={groupItems(view)}>{groupText(view)} ▾</Menu>
      )}
      <button type="button" class="button is-quiet view-unzoom" disabled={view.zoom.value === null} title="Show everything (z)"
        onClick={() => (view.zoom.value = null)}>Reset zoom</button>
    </div>
  );
}

function groupItems({ spread, centre, withUnfinished }: View): readonly (MenuItem | "divider")[] {
  const draw = (value: SpreadChoice): void => {
    spread.value = value;
  };
  const setCentre = (value: Centre): void => {
    centre.value = value;
    if (spread.value === "none") draw("std");
  };
  const isDrawn = spread.value !== "none";
  return [
    { label: "Each run separately", isOn: !isDrawn, run: () => draw("none") },
    "divider",
    { label: "Mean", isOn: isDrawn && centre.value === "mean", run: () => setCentre("mean") },
    { label: "Median", isOn: isDrawn && centre.value === "median", run: () => setCentre("median") },
    "divider",
    ...BANDS.map(({ value, label }) => ({ label, isOn: spread.value === value, run: () => draw(value) })),
    "divider",
    { label: "Include unfinished runs", isOn: withUnfinished.value, run: () => (withUnfinished.value = !withUnfinished.value) },
  ];
}

function groupText({ spread, centre }: View): string {
  if (spread.value === "none") return "groups";
  return `${centre.value} ${BANDS.find(({ value }) => value === spread.value)?.short ?? ""}`.trim();
}

export function setX({ view }: Page, x: XKind): void {
  view.x.value = x;
  view.zoom.value = null;
}
