/** One run in the list. */

import type { JSX } from "preact";

import { formatDelta, formatNumber, formatNumberOf, slotCss } from "../chart/index.ts";
import { withColor } from "../state/colors.ts";
import type { Page } from "../state/page.ts";
import { headline, isEnded } from "../state/run-rows.ts";
import { oneRun } from "../state/selection.ts";
import { Menu } from "../ui/menu.tsx";
import type { MenuItem } from "../ui/menu.tsx";
import { phaseTone } from "../panels/parts/phases.ts";
import type { RunRow as Row } from "../wire.ts";
import { RunNote, RunTags } from "./run-edit.tsx";
import { StatusDot } from "./status.tsx";

export interface RunRowProps {
  readonly page: Page;
  readonly row: Row;
  /** Whether its tags and its note are below it. */
  readonly isOpen: boolean;
}

export function RunRow({ page, row, isOpen }: RunRowProps): JSX.Element {
  const { runs, view } = page;
  const isShown = runs.isShown(row.id);
  const isDrawn = isShown || view.focus.value === row.id;
  const color = runs.isCrowd.value ? "var(--muted)" : slotCss(runs.slot(row.id));
  const isFocus = runs.focus.value?.id === row.id;
  const isBaseline = view.baseline.value === row.id;
  const label = runs.label(row.id);
  return (
    <div
      class={`run${isFocus ? " is-focus" : ""}${isShown ? " is-shown" : ""}`}
      data-run={row.id}
      onPointerEnter={() => (page.hovered.value = isDrawn ? row.id : null)}
      onPointerLeave={() => (page.hovered.value = null)}
    >
      <div class="run-line">
        <button
          type="button"
          role="checkbox"
          class="run-mark"
          tabIndex={-1}
          aria-checked={isShown}
          aria-label={`Show ${label} in the charts`}
          title="Show in the charts; with Shift, all up to this one"
          onClick={(event) => {
            if (event.altKey) runs.soloOn(row.id);
            else if (!runs.toggle(row.id, event.shiftKey))
              page.toasts.show(
                "Not all runs of this range could be checked. Filter the list and choose “Show all matches” instead.",
              );
          }}
        >
          <i
            style={
              isShown
                ? { background: color }
                : isDrawn
                  ? { boxShadow: `inset 0 0 0 2.5px ${color}` }
                  : {}
            }
          />
        </button>
        <button
          type="button"
          class="run-name"
          tabIndex={-1}
          aria-current={isFocus}
          title={titleOf(row)}
          onClick={() => (view.focus.value = row.id)}
          onDblClick={() => runs.soloOn(row.id)}
        >
          <StatusDot row={row} />
          <span class="run-label">{shortened(label)}</span>
          {row.phase != null && (
            <em
              class={`run-note run-phase is-${phaseTone(row.phase)}`}
              title={`${row.phase}${row.host == null ? "" : ` on ${row.host}`}`}
            >
              {row.phase}
            </em>
          )}
          {!row.is_summarised ? (
            <em class="run-note" title="Not summarised yet: only who it is and how it stands">
              …
            </em>
          ) : (
            <Trouble row={row} />
          )}
          {isBaseline && <em class="run-note">baseline</em>}
        </button>
        <Value page={page} row={row} baseline={isBaseline ? null : runs.baseline.value} />
        <input
          type="color"
          class="run-color"
          tabIndex={-1}
          aria-label={`Colour of ${label}`}
          value={`#${ownColor(page, row.id) ?? "3d68ca"}`}
          onInput={(event) =>
            (view.colors.value = withColor(view.colors.value, row.id, event.currentTarget.value))
          }
        />
        <Menu label={`Actions for ${label}`} tabIndex={-1} items={actions({ page, row })}>
          ⋯
        </Menu>
      </div>
      {isOpen &&
        (row.tags.length > 0 ||
          row.notes !== null ||
          (page.selection.actions !== null && view.place.value !== "run")) && (
          <div class="run-more">
            <RunTags page={page} row={row} />
            <RunNote key={row.id} page={page} row={row} />
          </div>
        )}
    </div>
  );
}

/** The colour that somebody chose, which the address keeps. */
function ownColor({ view }: Page, id: string): string | undefined {
  return view.colors.value.find((one) => one.startsWith(`${id}:`))?.slice(-6);
}

/** Runs of a sweep differ at the end of their names. */
function shortened(name: string): string {
  return name.length <= LONGEST
    ? name
    : `${name.slice(0, LONGEST / 2)}…${name.slice(-LONGEST / 2)}`;
}

const LONGEST = 64;

/** How many findings are open, the gravest kind in front; and a loss that ended as no number, where no rule has run. */
function Trouble({ row }: { readonly row: Row }): JSX.Element | null {
  const [errors, warnings] = [row.open_errors ?? 0, row.open_warnings ?? 0];
  const found = [
    errors > 0 && formatNumberOf(errors, "error"),
    warnings > 0 && formatNumberOf(warnings, "warning"),
  ]
    .filter(Boolean)
    .join(", ");
  const label = [found && `${found} still open`, row.nonfinite && "the last loss is not finite"]
    .filter(Boolean)
    .join("; ");
  if (label === "") return null;
  const isBad = errors > 0 || row.nonfinite;
  return (
    <em
      class={`run-note is-${isBad ? "critical" : "warning"}`}
      role="img"
      aria-label={label}
      title={label}
    >
      {isBad ? `✕${errors || ""}` : `▲${warnings}`}
    </em>
  );
}

function Value({
  page,
  row,
  baseline,
}: {
  readonly page: Page;
  readonly row: Row;
  readonly baseline: Row | null;
}): JSX.Element {
  const found = headline(row);
  const reference = baseline === null ? null : headline(baseline);
  if (found === null) return <span class="run-value" />;
  const isComparable =
    reference !== null &&
    reference.role === found.role &&
    found.summary.last !== null &&
    reference.summary.last !== null;
  return (
    <span
      class={`run-value${found.summary.last === null && found.summary.last_nonfinite !== null ? " is-critical" : ""}`}
      title={`${page.details.known(row.id)?.roles[found.role.replace(" ", "_")] ?? found.role}, latest${found.summary.last === null ? "" : `: ${found.summary.last}`}`}
    >
      {found.summary.last === null
        ? (found.summary.last_nonfinite ?? "")
        : formatNumber(found.summary.last)}
      {isComparable && (
        <span class="run-delta">{formatDelta(found.summary.last!, reference.summary.last!)}</span>
      )}
    </span>
  );
}

function titleOf(row: Row): string {
  const tags = row.tags.length === 0 ? "" : `\n${row.tags.join(", ")}`;
  const where =
    row.host == null ? "" : ` on ${row.host}${row.phase == null ? "" : `, ${row.phase}`}`;
  const owner = row.owner === null ? "" : `\n${row.owner}`;
  return `${row.name} (${row.id})\n${row.status.text}${where}${owner}${row.problem === null ? "" : `\n${row.problem}`}${tags}`;
}

function actions({ page, row }: Omit<RunRowProps, "isOpen">): readonly (MenuItem | "divider")[] {
  const { runs, view, source } = page;
  const isBaseline = view.baseline.value === row.id;
  const items: (MenuItem | "divider")[] = [
    { label: "Show alone", hint: "double click", run: () => runs.soloOn(row.id) },
    {
      label: "Baseline",
      isOn: isBaseline,
      hint: "b",
      run: () => (view.baseline.value = isBaseline ? null : row.id),
    },
    {
      label: "Colour…",
      run: () =>
        document
          .querySelector<HTMLInputElement>(`[data-run="${CSS.escape(row.id)}"] .run-color`)
          ?.click(),
    },
    ...(ownColor(page, row.id) !== undefined
      ? [
          {
            label: "Automatic colour",
            run: () => (view.colors.value = withColor(view.colors.value, row.id, null)),
          },
        ]
      : []),
    {
      label: "Show only this and the baseline",
      run: () => runs.showOnly([...new Set([view.baseline.value ?? row.id, row.id])]),
    },
  ];
  if (source.updateLabels !== null) {
    items.push("divider", {
      label: "Rename…",
      run: () => {
        view.focus.value = row.id;
        page.open("run");
        // The name at the top of the run is changed in its place.
        requestAnimationFrame(() =>
          requestAnimationFrame(() => document.querySelector<HTMLElement>(".run-title")?.click()),
        );
      },
    });
  }
  const { actions } = page.selection;
  if (actions !== null) {
    items.push({
      label: row.hidden ? "Show in the list again" : "Hide from the list",
      run: () =>
        void actions.change(
          oneRun(row.id),
          { hidden: !row.hidden },
          row.hidden ? "The list shows again" : "The list no longer shows",
        ),
    });
    items.push("divider", {
      label: "Delete",
      ...(isEnded(row) ? {} : { hint: "live" }),
      isDisabled: row.status.state === "running",
      run: () => void actions.remove(oneRun(row.id)),
    });
  }
  return items;
}

export async function updateLabels(
  page: Page,
  row: Row,
  change: { readonly name?: string | null; readonly hidden?: boolean },
): Promise<void> {
  try {
    await page.source.updateLabels?.(row.id, change);
    page.runs.reload();
    page.details.refetch(row.id);
  } catch (error) {
    page.toasts.show(error instanceof Error ? error.message : String(error), "critical");
  }
}
