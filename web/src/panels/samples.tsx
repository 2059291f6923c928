/** Texts, pictures, tables, audio, video and files that were logged, at one step or at several. */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import { formatNumberOf, formatWhole } from "../chart/index.ts";
import { expandPatterns } from "../state/chart-spec.ts";
import type { Page } from "../state/page.ts";
import { SAMPLE_KINDS, useEntries, useRunResponses } from "../state/queries.ts";
import { useResting } from "../ui/resting.ts";
import { SearchBox } from "../ui/search-box.tsx";
import { Segmented } from "../ui/segmented.tsx";
import type { RunRow } from "../wire.ts";
import type { RunSection, SectionProps } from "./panel.ts";
import { InView } from "./parts/in-view.tsx";
import { FileLink } from "./parts/sample-body.tsx";
import { Legend } from "./parts/sample-picture.tsx";
import { classesOf, evenSteps, sampleOf, samplesByName } from "./parts/sample-record.ts";
import type { Classes, Column } from "./parts/sample-record.ts";
import {
  ColumnHead,
  columnsOf,
  isWide,
  SampleCell,
  SampleView,
  useKeys,
} from "./parts/sample-view.tsx";
import type { Opened } from "./parts/sample-view.tsx";
import { searchOf } from "./parts/search.ts";
import { parseStep, stepBy, StepSlider } from "./parts/step-slider.tsx";
import "./samples.css";

const MOST_RUNS = 12;
const MOST_STEPS = 6;
const BY_NAME = new Intl.Collator("en", { numeric: true });
const ROW_PX = 180;
/** How long the slider rests before samples are fetched. */
const REST_MS = 120;
const NO_RUNS: readonly RunRow[] = [];

export const section: RunSection = {
  order: 20,
  id: "samples",
  title: "Samples",
  shortcut: "i",
  component: Samples,
  hasContent: (_, { recorded }) =>
    recorded.some((kind) => kind === "file" || SAMPLE_KINDS.includes(kind)),
};

function Samples({ page, run }: SectionProps): JSX.Element {
  return <SampleRows page={page} run={run} others={NO_RUNS} />;
}

/** Samples of some names or patterns, for the runs in the charts or the steps of one run. */
export function BoardSamples({
  page,
  names,
}: {
  readonly page: Page;
  readonly names: readonly string[];
}): JSX.Element {
  const run = page.runs.focus.value;
  const isNamed = useMemo(
    () => (name: string) => expandPatterns(names, [name]).includes(name),
    [names.join("\n")],
  );
  if (run === null) return <p role="status">There is no run to show.</p>;
  return (
    <SampleRows
      page={page}
      run={run}
      others={page.runs.shown.value.filter(({ id }) => id !== run.id)}
      isNamed={isNamed}
    />
  );
}

interface SampleRowsProps {
  readonly page: Page;
  readonly run: RunRow;
  /** Runs beside it. */
  readonly others: readonly RunRow[];
  /** Which names a board shows; without it all, with a search. */
  readonly isNamed?: (name: string) => boolean;
}

function SampleRows({ page, run, others, isNamed }: SampleRowsProps): JSX.Element {
  const own = [useSignal("runs"), useSignal("")] as const;
  const across = isNamed === undefined ? page.view.text("sample-columns", "runs") : own[0];
  const chosen = isNamed === undefined ? page.view.text("sample-step") : own[1];
  const search = searchOf(page, "sample");
  const [opened, setOpened] = useState<Opened | null>(null);
  const wanted = parseStep(chosen.value);
  const { columns, numRuns, names, steps, problem, isLoaded } = useColumns(
    page,
    run,
    across.value === "steps" ? null : others,
    useResting(wanted, REST_MS),
  );
  const classes = useMemo(
    () => classesOf(columns.flatMap(({ samples }) => [...samples.values()].flat())),
    [columns],
  );
  const setStep = (step: number | null): void => {
    chosen.value = step === null ? "" : String(step);
  };
  useKeys(
    {
      ArrowLeft: () => setStep(stepBy(steps, wanted, -1)),
      ArrowRight: () => setStep(stepBy(steps, wanted, 1)),
    },
    opened !== null,
  );
  const shown = useMemo(
    () => names.filter(isNamed ?? search.matches),
    [names, search.query, isNamed],
  );
  const slider = <StepSlider steps={steps} step={wanted} onChange={setStep} />;
  return (
    <div class="pane samples-pane" aria-busy={!isLoaded}>
      <div class="pane-bar">
        <Segmented
          label="Columns"
          value={across.value === "steps" ? "steps" : "runs"}
          onChange={(value) => (across.value = value)}
          choices={[
            { value: "runs", label: isNamed === undefined ? "One step" : "Runs" },
            { value: "steps", label: "Steps" },
          ]}
        />
        {slider}
        {isLoaded && shown.length > 0 && numRuns > columns.length && (
          <span
            class="card-note"
            title={`Runs without samples are left out, and no more than ${MOST_RUNS} are shown.`}
          >
            Samples of {columns.length} of {numRuns} runs
          </span>
        )}
        {names.length > 4 && isNamed === undefined && (
          <SearchBox
            label="Filter samples"
            query={search.query}
            count={`${shown.length} of ${names.length}`}
            onChange={search.onChange}
          />
        )}
      </div>
      <Legend page={page} classes={classes} />
      {problem !== null && <p role="status">{problem}</p>}
      {page.source.numLeftOut(run.id) > 0 && (
        <p role="status">{`This archive has the newest samples of each name. ${formatNumberOf(page.source.numLeftOut(run.id), "older or larger sample")} did not fit; “epochal serve” shows them.`}</p>
      )}
      <div
        class={`samples${columns.length === 1 ? " is-alone" : ""}`}
        tabIndex={0}
        style={{ "--columns": String(columns.length) }}
      >
        {columns.length > 1 && shown.some((name) => !isFree(name, columns)) && (
          <div class="samples-head">
            {columns.map((column) => (
              <ColumnHead key={column.key} page={page} column={column} />
            ))}
          </div>
        )}
        <div class="samples-rows">
          {shown.map((name) => (
            <InView key={name} height={ROW_PX} isGrowing>
              {() => (
                <Row
                  page={page}
                  name={name}
                  columns={columns}
                  classes={classes}
                  onOpen={(index) => setOpened({ name, index })}
                />
              )}
            </InView>
          ))}
        </div>
        {isLoaded && shown.length === 0 && (names.length > 0 || isNamed !== undefined) && (
          <p role="status">
            {isNamed === undefined
              ? `No sample has a name with “${search.query}”.`
              : "None of the runs in the charts has a sample with one of these names."}
          </p>
        )}
        {isNamed === undefined && <Files page={page} run={run} />}
      </div>
      <SampleView
        page={page}
        columns={columns}
        names={shown}
        classes={classes}
        opened={opened}
        onOpen={setOpened}
        tools={slider}
      />
    </div>
  );
}

interface Columns {
  readonly columns: readonly Column[];
  /** With those that have no samples, or are too many. */
  readonly numRuns: number;
  readonly names: readonly string[];
  readonly steps: readonly number[];
  readonly problem: string | null;
  readonly isLoaded: boolean;
}

/** The samples at or before a step: of a run and others beside it, or, where they are null, of the run at several steps. */
function useColumns(
  page: Page,
  run: RunRow,
  others: readonly RunRow[] | null,
  at: number | null,
): Columns {
  const areSteps = others === null;
  const params = at === null ? {} : { at };
  const focused = useRunResponses(
    page,
    "samples",
    [{ key: run.id, run: run.id, params }],
    SAMPLE_KINDS,
  ).get(run.id);
  const past = areSteps
    ? evenSteps(focused?.response?.steps ?? [], at, MOST_STEPS).slice(0, -1)
    : [];
  const numOthers = others?.length ?? 0;
  const requests = areSteps
    ? past.map((step, index) => ({ key: String(index), run: run.id, params: { at: step } }))
    : others.slice(0, MOST_RUNS - 1).map(({ id }) => ({ key: id, run: id, params }));
  const found = useRunResponses(page, "samples", requests, SAMPLE_KINDS);
  const main = { key: run.id, run: run.id, params };
  const all = areSteps ? [...requests, main] : [main, ...requests];
  return useMemo(() => {
    const responses = all.map((request) => (request === main ? focused : found.get(request.key)));
    const isArchive = page.source.connection.peek() === "archive";
    const columns = all.map(({ key, run: id, params: { at: step } }, index) => {
      const { entries = [], names = {} } = responses[index]?.response ?? {};
      const samples = samplesByName(entries);
      const leftOut =
        isArchive && step === undefined
          ? Object.keys(names).filter((name) => !samples.has(name))
          : [];
      return {
        key,
        run: id,
        step: areSteps ? (step ?? focused?.response?.steps.at(-1) ?? 0) : null,
        samples,
        leftOut,
        isUsed: id === run.id || Object.keys(names).length > 0,
      };
    });
    const listed = (areSteps ? [focused] : responses)
      .map((one) => one?.response)
      .filter((one) => one != null);
    return {
      columns: columns.filter(({ isUsed }) => isUsed),
      numRuns: areSteps ? 1 : 1 + numOthers,
      // A server and an archive list them in different orders.
      names: [...new Set(listed.flatMap(({ names }) => Object.keys(names)))].sort(BY_NAME.compare),
      steps: [...new Set(listed.flatMap(({ steps }) => steps))].sort((one, other) => one - other),
      problem: responses.find((one) => one?.problem != null)?.problem ?? null,
      isLoaded: focused?.response != null,
    };
  }, [focused, found, areSteps, JSON.stringify(all), numOthers]);
}

interface RowProps {
  readonly page: Page;
  readonly name: string;
  readonly columns: readonly Column[];
  readonly classes: Classes;
  readonly onOpen: (index: number) => void;
}

/** Cells of wide samples, and of a part of the runs, are not below the headings of all. */
function isFree(name: string, all: readonly Column[]): boolean {
  const columns = columnsOf(name, all);
  return all.length > 1 && (columns.length < all.length || isWide(name, columns));
}

function Row({ page, name, columns: all, classes, onOpen }: RowProps): JSX.Element {
  const columns = columnsOf(name, all);
  const hasHeads = isFree(name, all);
  return (
    <section class="card samples-row" aria-label={name} data-title={name}>
      <header class="samples-name">
        <h3 title={name}>{name}</h3>
        <button
          type="button"
          class="button is-quiet"
          title="Full screen"
          aria-label={`Full screen: ${name}`}
          onClick={() => onOpen(0)}
        >
          ⤢
        </button>
      </header>
      <div
        class={`samples-cells${hasHeads ? " is-free" : ""}${isWide(name, columns) ? " is-wide" : ""}`}
      >
        {columns.map((column, index) => (
          <div key={column.key}>
            {hasHeads && <ColumnHead page={page} column={column} />}
            <SampleCell
              page={page}
              column={column}
              base={columns[column.step === null ? 0 : index - 1]}
              name={name}
              classes={classes}
              onOpen={onOpen}
            />
          </div>
        ))}
        {columns.length === 0 && <p class="card-note">no sample yet</p>}
      </div>
    </section>
  );
}

/** Files that the run keeps with `run.log_file`. */
function Files({ page, run }: { readonly page: Page; readonly run: RunRow }): JSX.Element | null {
  const { list } = useEntries(page, "files", run.id, { limit: 5000 });
  const files = useMemo(
    () => (list?.entries ?? []).flatMap((entry) => sampleOf(entry) ?? []),
    [list],
  );
  if (files.length === 0) return null;
  return (
    <section class="card samples-files" aria-label="Files" data-title="Files">
      <h3>Files</h3>
      <table>
        <thead>
          <tr>
            <th scope="col">Name and size</th>
            <th scope="col">Step</th>
          </tr>
        </thead>
        <tbody>
          {files.toReversed().map(({ name, step, file, bytes }, index) => (
            <tr key={index}>
              <td>
                <FileLink
                  address={page.source.blobUrl(run.id, file)}
                  file={name}
                  name={name}
                  bytes={bytes}
                />
              </td>
              <td>{step === null ? "" : formatWhole(step)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
