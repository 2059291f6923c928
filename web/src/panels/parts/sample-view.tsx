/** One sample in the whole window, of all columns side by side; pictures are zoomed and moved together. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";

import { formatWhole, slotCss } from "../../chart/index.ts";
import type { Page } from "../../state/page.ts";
import { Dialog } from "../../ui/dialog.tsx";
import { LEFT_OUT, SampleBody } from "./sample-body.tsx";
import { PLOTLY_TYPE } from "./plotly-frame.tsx";
import { Legend } from "./sample-picture.tsx";
import type { Classes, Column, Sample } from "./sample-record.ts";
import { TABLE_TYPE } from "./sample-table.tsx";
import { WHOLE, ZOOM_STEP, zoomedAt, ZoomFrame, ZoomTools } from "./zoom-frame.tsx";
import type { Placement } from "./zoom-frame.tsx";

/** A name, and a place in a list that was logged under it. */
export interface Opened {
  readonly name: string;
  readonly index: number;
}

export interface SampleViewProps {
  readonly page: Page;
  readonly columns: readonly Column[];
  readonly names: readonly string[];
  readonly classes: Classes;
  /** Null while it is closed. */
  readonly opened: Opened | null;
  readonly onOpen: (opened: Opened | null) => void;
  readonly tools: ComponentChildren;
}

const WIDE: ReadonlySet<string> = new Set([TABLE_TYPE, PLOTLY_TYPE, "text/html"]);
/** Pictures of a list that are shown before somebody asks for more. */
const MOST_LISTED = 60;
const MORE_LISTED = 500;

export function SampleView({
  page,
  columns: runs,
  names,
  classes,
  opened,
  onOpen,
  tools,
}: SampleViewProps): JSX.Element {
  const [place, setPlace] = useState<Placement>(WHOLE);
  const all = useMemo(
    () => (opened === null ? [] : placesOf(names, runs)),
    [opened === null, names, runs],
  );
  const columns = columnsOf(opened?.name ?? "", runs);
  const numListed = all.filter(({ name }) => name === opened?.name).length;
  const at = all.findIndex(({ name, index }) => name === opened?.name && index === opened.index);
  const go = (by: number): void => {
    const next = all[at + by];
    if (next !== undefined) onOpen(next);
  };
  const zoom = (factor: number) => () =>
    setPlace((before) => zoomedAt(before, factor, { x: 0, y: 0 }));
  const zoomKeys = {
    "+": zoom(ZOOM_STEP),
    "=": zoom(ZOOM_STEP),
    "-": zoom(1 / ZOOM_STEP),
    "0": () => setPlace(WHOLE),
  };
  useKeys(
    opened === null ? {} : { ArrowUp: () => go(-1), ArrowDown: () => go(1), ...zoomKeys },
    true,
  );
  useEffect(() => setPlace(WHOLE), [opened?.name]);
  const isPicture = columns.some(({ samples }) =>
    samples.get(opened?.name ?? "")?.some(isPictured),
  );
  return (
    <Dialog
      title={
        opened === null
          ? ""
          : `${opened.name}${numListed > 1 ? ` · ${formatWhole(opened.index + 1)} of ${formatWhole(numListed)}` : ""}`
      }
      isOpen={opened !== null}
      isFull
      onClose={() => onOpen(null)}
    >
      {opened !== null && (
        <>
          <div class="pane-bar">
            <button
              type="button"
              class="button"
              title="Previous sample (↑)"
              disabled={at <= 0}
              onClick={() => go(-1)}
            >
              Previous
            </button>
            <button
              type="button"
              class="button"
              title="Next sample (↓)"
              disabled={at < 0 || at === all.length - 1}
              onClick={() => go(1)}
            >
              Next
            </button>
            {tools}
            {isPicture && <ZoomTools place={place} onPlace={setPlace} />}
          </div>
          <Legend page={page} classes={classes} />
          <div
            class={`sample-view${isWide(opened.name, columns) ? " is-wide" : ""}`}
            style={{ "--columns": String(columns.length) }}
          >
            {columns.map((column, index) => (
              <div key={column.key} class="sample-side">
                <ColumnHead page={page} column={column} />
                <SampleCell
                  page={page}
                  column={column}
                  base={columns[column.step === null ? 0 : index - 1]}
                  name={opened.name}
                  index={opened.index}
                  classes={classes}
                  wrap={
                    isPicture
                      ? (content) => (
                          <ZoomFrame label={opened.name} place={place} onPlace={setPlace} isAlone>
                            {content}
                          </ZoomFrame>
                        )
                      : undefined
                  }
                />
              </div>
            ))}
          </div>
        </>
      )}
    </Dialog>
  );
}

export function ColumnHead({
  page,
  column: { run, step },
}: {
  readonly page: Page;
  readonly column: Column;
}): JSX.Element {
  const label = step === null ? page.runs.label(run) : `step ${formatWhole(step)}`;
  return (
    <div class="samples-column" title={label}>
      <i class="run-dot" style={{ background: slotCss(page.runs.slot(run)) }} />
      <span>{label}</span>
    </div>
  );
}

export interface SampleCellProps {
  readonly page: Page;
  readonly column: Column;
  /** The column that differences of texts are marked against. */
  readonly base: Column | undefined;
  readonly name: string;
  /** Only this place of a list. */
  readonly index?: number;
  readonly classes: Classes;
  readonly onOpen?: (index: number) => void;
  readonly wrap?: ((content: ComponentChildren) => ComponentChildren) | undefined;
}

/** What one column has under a name, with the step at which it was logged. */
export function SampleCell({
  page,
  column,
  base,
  name,
  index,
  classes,
  onOpen,
  wrap = (content) => content,
}: SampleCellProps): JSX.Element {
  const [most, setMost] = useState(MOST_LISTED);
  const samples = (column.samples.get(name) ?? []).filter(
    (sample) => index === undefined || sample.index === index,
  );
  const step = samples[0]?.step ?? null;
  const baseOf = (sample: Sample): string | null =>
    base?.samples.get(name)?.find((one) => one.index === sample.index)?.text ?? null;
  return (
    <div class="samples-cell">
      <p class="card-note samples-note">
        {samples.length === 0
          ? column.leftOut.includes(name)
            ? LEFT_OUT
            : "no sample yet"
          : step === null
            ? ""
            : `step ${formatWhole(step)}`}
      </p>
      {samples.length > 0 &&
        wrap(
          <div class={samples.length > 1 && samples.every(isPictured) ? "samples-list" : undefined}>
            {samples.slice(0, most).map((sample) => (
              <SampleBody
                key={`${sample.index} ${sample.mediaType}`}
                page={page}
                run={column.run}
                sample={sample}
                classes={classes}
                base={baseOf(sample)}
                onOpen={onOpen === undefined ? undefined : () => onOpen(sample.index)}
              />
            ))}
          </div>,
        )}
      {samples.length > most && (
        <button
          type="button"
          class="button"
          onClick={() => setMost(most + MORE_LISTED)}
        >{`Show ${formatWhole(Math.min(MORE_LISTED, samples.length - most))} more of ${formatWhole(samples.length)}`}</button>
      )}
    </div>
  );
}

/** The columns that have a name. */
export function columnsOf(name: string, columns: readonly Column[]): readonly Column[] {
  return columns.filter(({ samples, leftOut }) => samples.has(name) || leftOut.includes(name));
}

/** Whether there are tables, charts or pages, which cannot be read in a narrow column. */
export function isWide(name: string, columns: readonly Column[]): boolean {
  return columns.some(({ samples }) =>
    samples.get(name)?.some(({ mediaType }) => WIDE.has(mediaType)),
  );
}

function isPictured({ mediaType }: Sample): boolean {
  return mediaType.startsWith("image/");
}

/** Every sample in the order of the rows, each place of a list by itself. */
export function placesOf(
  names: readonly string[],
  columns: readonly Pick<Column, "samples">[],
): readonly Opened[] {
  return names.flatMap((name) => {
    const indices = new Set(
      columns.flatMap(({ samples }) => (samples.get(name) ?? []).map(({ index }) => index)),
    );
    return [...indices].sort((one, other) => one - other).map((index) => ({ name, index }));
  });
}

/** What keys do anywhere on the page, except in controls that have a use for them, and under a window unless `isInDialog`. */
export function useKeys(keys: Readonly<Record<string, () => void>>, isInDialog: boolean): void {
  // At once, not after the next picture: keys may come faster.
  useLayoutEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      const run = keys[event.key];
      const isTaken =
        event.target instanceof Element &&
        event.target.closest("input, select, textarea, audio, video, [contenteditable]") !== null;
      if (
        run === undefined ||
        isTaken ||
        event.defaultPrevented ||
        event.ctrlKey ||
        event.metaKey ||
        event.altKey
      )
        return;
      if (document.querySelector(isInDialog ? ".menu" : ".menu, dialog[open]") !== null) return;
      event.preventDefault();
      run();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  });
}
