/** How all charts are drawn: their size, marks, ranks and colours, and what the colours mean. */

import type { JSX } from "preact";
import { useId, useRef } from "preact/hooks";

import { formatWhole, slotSample } from "../chart/index.ts";
import { configText } from "../state/config.ts";
import type { Page } from "../state/page.ts";
import { CHART_SIZES } from "../state/view.ts";
import type { OutlierChoice } from "../state/view.ts";
import { place } from "../ui/menu.tsx";
import { Segmented } from "../ui/segmented.tsx";
import { toggled } from "./parts/chart-card.tsx";
import { drawsGroups } from "./parts/curves.ts";
import { CHART_MARKS, hiddenMarks } from "./parts/chart-marks.ts";
import type { ChartMark } from "./parts/chart-marks.ts";

const SIZES = { s: "Small", m: "Medium", l: "Large" } as const;
const OUTLIERS: Readonly<Record<OutlierChoice, string>> = {
  auto: "Clip runs that flatten the others",
  1: "Clip outliers",
  0: "Show all values",
};
const RANKS = { "": "Rank 0", all: "Each rank", mean: "Mean and range", map: "Heat map" } as const;
const MARKS: Readonly<Record<ChartMark, string>> = {
  finding: "Findings",
  restart: "Restarts",
  epoch: "Epochs",
  checkpoint: "Checkpoints",
};
const MOST_KEYS = 200;
const MOST_GROUPS = 24;

export function Display({ page }: { readonly page: Page }): JSX.Element {
  const { view, runs, metrics, boards } = page;
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const ranks = view.text("ranks");
  const hidden = hiddenMarks(page);
  const keys = runs.configKeys.value
    .filter(
      (key) => new Set(runs.drawn.value.map(({ config }) => configText(config, key))).size > 1,
    )
    .slice(0, MOST_KEYS);
  return (
    <>
      <button ref={button} type="button" class="button is-quiet" popovertarget={id}>
        Display ▾
      </button>
      <div
        id={id}
        popover="auto"
        class="display"
        role="group"
        aria-label="Display of charts"
        onToggle={(event) =>
          event.newState === "open" && place(event.currentTarget, button.current!)
        }
      >
        {boards.board.value === null && (
          <Segmented
            label="Size of charts"
            choices={CHART_SIZES.map((value) => ({ value, label: SIZES[value] }))}
            value={view.chartSize.value}
            onChange={(size) => (view.chartSize.value = size)}
          />
        )}
        <Choice
          label="Outliers"
          choices={Object.entries(OUTLIERS)}
          value={view.outliers.value}
          onChange={(value) => (view.outliers.value = value as OutlierChoice)}
        />
        {metrics.value.some((metric) => metric.ranks.some((rank) => rank > 0)) && (
          <Choice
            label="Ranks"
            choices={Object.entries(RANKS)}
            value={ranks.value}
            onChange={(value) => (ranks.value = value)}
          />
        )}
        <Choice
          label="Colours"
          choices={[
            ["", "One for each run"],
            ...[
              ...new Set([...keys, ...(view.colorBy.value === null ? [] : [view.colorBy.value])]),
            ].map((key) => [key, `By ${key}`] as const),
          ]}
          value={view.colorBy.value ?? ""}
          onChange={(key) => (view.colorBy.value = key || null)}
        />
        <fieldset class="display-marks">
          <legend>Marks</legend>
          {CHART_MARKS.map((kind) => (
            <Check
              key={kind}
              label={MARKS[kind]}
              isOn={!hidden.includes(kind)}
              onChange={() => (view.text("no-marks").value = toggled(hidden, kind).join(" "))}
            />
          ))}
        </fieldset>
      </div>
    </>
  );
}

function Check({
  label,
  isOn,
  onChange,
}: {
  readonly label: string;
  readonly isOn: boolean;
  readonly onChange: (isOn: boolean) => void;
}): JSX.Element {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={isOn}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />{" "}
      {label}
    </label>
  );
}

function Choice({
  label,
  choices,
  value,
  onChange,
}: {
  readonly label: string;
  readonly choices: readonly (readonly [string, string])[];
  readonly value: string;
  readonly onChange: (value: string) => void;
}): JSX.Element {
  return (
    <label class="display-choice">
      {label}
      <select
        class="select"
        value={value}
        onChange={(event) => onChange(event.currentTarget.value)}
      >
        {choices.map(([key, text]) => (
          <option key={key} value={key}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** What the colours mean where they stand for values of the config, or for groups: small charts have no legend, and a phone has no list beside them. */
export function ColorKeys({ page }: { readonly page: Page }): JSX.Element | null {
  const { view, runs } = page;
  const coloring = runs.coloring.value;
  if (coloring !== null) {
    return (
      <div class="color-keys" role="group" aria-label={`Colours by ${view.colorBy.value}`}>
        <span>
          {view.colorBy.value}
          {coloring.isRange ? ", from low to high" : ""}
        </span>
        {coloring.keys.map(({ text, slot, count }) => (
          <span key={text}>
            <i style={{ background: slotSample(slot) }} />
            {text === "" ? "none" : text}
            <small>{coloring.isRange ? "" : ` ${count}`}</small>
          </span>
        ))}
      </div>
    );
  }
  const groups = drawsGroups(page)
    ? runs.groups.value.filter(({ title, rows }) => title !== null && rows.length > 0)
    : [];
  if (groups.length < 2 || groups.length > MOST_GROUPS) return null;
  return (
    <div class="color-keys" role="group" aria-label="Colours of groups">
      {groups.map(({ title, rows }) => (
        <span key={title}>
          <i style={{ background: slotSample(runs.slot(rows[0]!.id)) }} />
          {title}
          <small> {formatWhole(rows.length)}</small>
        </span>
      ))}
    </div>
  );
}
