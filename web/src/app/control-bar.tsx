/** The choices that every place follows: x axis, smoothing, grouping; and what can be shared. In full screen it has the filter of runs as well. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { axisName } from "../chart/index.ts";
import { boardOf } from "../state/boards.ts";
import { groupName, varyingKeys } from "../state/group-keys.ts";
import type { Page } from "../state/page.ts";
import { X_KINDS } from "../state/view.ts";
import type { Centre, SpreadChoice } from "../state/view.ts";
import { compileFilter } from "../ui/filter.ts";
import { Menu } from "../ui/menu.tsx";
import type { MenuItem } from "../ui/menu.tsx";
import { Slider } from "../ui/slider.tsx";
import type { XKind } from "../wire.ts";
import { RunFilter } from "./run-filter.tsx";

const CENTRES: readonly (readonly [Centre, string])[] = [
  ["mean", "Mean"],
  ["median", "Median"],
];
const BANDS: readonly (readonly [SpreadChoice, string])[] = [
  ["std", "± standard deviation"],
  ["stderr", "± standard error"],
  ["ci", "95 % interval of the mean"],
  ["iqr", "Quartiles"],
  ["minmax", "Smallest to largest"],
  ["line", "No band"],
];
export const SMOOTHEST = 0.99;
const MOST_KEYS = 200;

export function ControlBar({ page }: { readonly page: Page }): JSX.Element {
  const { view } = page;
  const [isOpen, setOpen] = useState(false);
  const group = view.groupBy.value;
  const axes = [
    axisName(view.x.value),
    ...(view.isLogX.value ? ["log x"] : []),
    ...(view.isLogY.value ? ["log y"] : []),
  ].join(", ");
  return (
    <div class={`controls${isOpen ? " is-open" : ""}`} role="toolbar" aria-label="View">
      <button
        type="button"
        class="button is-quiet controls-open"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        View {isOpen ? "▾" : "▴"}
      </button>
      <div class="controls-items">
        {view.full.value !== null && <RunFilter page={page} />}
        <Menu label={`Axes: ${axes}`} items={() => axisItems(page)}>
          Axes: {axes.toLowerCase()} ▾
        </Menu>
        <Slider
          label="Smooth"
          min={0}
          max={SMOOTHEST}
          step={0.01}
          value={view.smoothness.value}
          text={view.smoothness.value.toFixed(2)}
          onChange={(value) => (view.smoothness.value = value)}
        />
        <Menu
          label={`Group runs${group === null ? "" : ` by ${groupName(group)}`}`}
          items={() => groupItems(page)}
        >
          {group === null ? "Group" : `by ${groupName(group)}`} ▾
        </Menu>
        {view.zoom.value !== null && (
          <button
            type="button"
            class="button"
            title="Show everything (z)"
            onClick={() => (view.zoom.value = null)}
          >
            Reset zoom
          </button>
        )}
        <Menu label="Share" items={() => shareItems(page)}>
          Share ▾
        </Menu>
      </div>
    </div>
  );
}

function axisItems(page: Page): readonly (MenuItem | "divider")[] {
  const { isLogX, isLogY, x } = page.view;
  return [
    ...xKinds(page).map((kind) => ({
      label: axisName(kind),
      isOn: x.value === kind,
      run: () => setX(page, kind),
    })),
    "divider",
    { label: "Logarithmic x", isOn: isLogX.value, run: () => (isLogX.value = !isLogX.value) },
    { label: "Logarithmic y", isOn: isLogY.value, run: () => (isLogY.value = !isLogY.value) },
  ];
}

/** No groups, everything but the seed, and each key that differs, where a second key is added to the first; then how groups are drawn. */
function groupItems({ view, runs }: Page): readonly (MenuItem | "divider")[] {
  const { spread, centre, withUnfinished } = view;
  const choice = view.groupBy.value;
  const isBut = choice?.startsWith("-") ?? false;
  const chosen = choice === null ? [] : choice.replace(/^-/, "").split(",");
  const keys = [...new Set([...varyingKeys(runs.all.value), ...chosen])].slice(0, MOST_KEYS);
  const set = (next: readonly string[], but: boolean): void => {
    view.groupBy.value = next.length === 0 ? null : `${but ? "-" : ""}${next.join(",")}`;
  };
  const toggled = (key: string): readonly string[] =>
    chosen.includes(key) ? chosen.filter((one) => one !== key) : [...chosen, key];
  const seeds = keys.filter((key) => /(^|[._])seed$/.test(key));
  const isDrawn = spread.value !== "none";
  const drawn: (MenuItem | "divider")[] =
    choice === null
      ? []
      : [
          "divider",
          { label: "Each run separately", isOn: !isDrawn, run: () => (spread.value = "none") },
          ...CENTRES.map(([value, label]) => ({
            label,
            isOn: isDrawn && centre.value === value,
            run: () => {
              centre.value = value;
              if (!isDrawn) spread.value = "std";
            },
          })),
          "divider",
          ...BANDS.map(([value, label]) => ({
            label,
            isOn: spread.value === value,
            run: () => (spread.value = value),
          })),
          "divider",
          {
            label: "Include unfinished runs",
            isOn: withUnfinished.value,
            run: () => (withUnfinished.value = !withUnfinished.value),
          },
        ];
  return [
    { label: "No groups", isOn: choice === null, run: () => set([], false) },
    ...seeds.map((key) => ({
      label: `Everything but ${key}`,
      isOn: isBut && chosen.includes(key),
      run: () => set(isBut ? toggled(key) : [key], true),
    })),
    ...keys
      .filter((key) => isBut || !seeds.includes(key) || chosen.includes(key) || keys.length === 1)
      .map((key) => ({
        label: isBut ? `… and but ${key}` : key,
        isOn: chosen.includes(key),
        run: () => set(toggled(key), isBut),
      })),
    ...drawn,
  ];
}

function shareItems(page: Page): readonly MenuItem[] {
  const { source, view, runs, toasts, boards, metrics } = page;
  const link = location.href.replace(/#.*$/, "") + view.address();
  const file = source.exportUrl(
    view.place.value === "board" && boards.saved.value !== null
      ? { board: boards.saved.value.board.name, project: boards.saved.value.project }
      : runs.showsAll.value
        ? { query: runs.sweepQuery() }
        : { run: runs.shown.value.map(({ id }) => id) },
  );
  const isUnsaved = view.place.value === "board" && boards.isChanged.value;
  return [
    {
      label: "Copy link",
      hint: "this view",
      run: () =>
        void copy(link).then((isCopied) =>
          toasts.show(isCopied ? "The link to this view is copied." : link),
        ),
    },
    ...(!boards.canSave || (view.place.value === "board" && boards.board.value !== null)
      ? []
      : [
          {
            label: "Save as a board",
            hint: "a chart for each metric",
            run: () => {
              page.open("board");
              boards.create(
                boardOf(
                  metrics.value
                    .filter(({ name }) => compileFilter(view.metrics.value)(name))
                    .map(({ name }) => name),
                ),
              );
            },
          },
        ]),
    ...(file === null
      ? []
      : [
          {
            label: "Save as HTML",
            hint: isUnsaved ? "Save the board first." : "one file",
            isDisabled: isUnsaved,
            run: () => location.assign(file),
          },
        ]),
  ];
}

/** False where the browser has no clipboard, as at addresses without https. */
async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** The axes that runs can be drawn along; tokens where a run logged them. */
export function xKinds({ view, metrics }: Page): readonly XKind[] {
  const hasTokens =
    view.x.value === "tokens" ||
    metrics.value.some(({ name }) => name === "tokens" || name === "train/step_tokens");
  return X_KINDS.filter((x) => x !== "tokens" || hasTokens);
}

export function setX({ view }: Page, x: XKind): void {
  view.x.value = x;
  view.zoom.value = null;
}
