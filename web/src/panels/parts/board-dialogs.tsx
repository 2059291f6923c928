/** Dialogs of boards: what a chart draws, what a board is called, which board or chart something goes to. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useState } from "preact/hooks";

import { axisName } from "../../chart/index.ts";
import { blockOf, EMPTY_BOARD, withBlocks } from "../../state/boards.ts";
import type { Block } from "../../state/boards.ts";
import { missingText } from "../../state/chart-spec.ts";
import type { ChartSpec } from "../../state/chart-spec.ts";
import type { Page } from "../../state/page.ts";
import { chosenProjects } from "../../state/projects.ts";
import { X_KINDS } from "../../state/view.ts";
import { completed, completionsOf } from "../../ui/completion.ts";
import { Dialog } from "../../ui/dialog.tsx";
import type { MenuItem } from "../../ui/menu.tsx";
import { Drawn } from "./chart-card.tsx";
import { wideOf } from "./wide-metrics.ts";

const MOST_COMPLETIONS = 500;
const PREVIEW_PX = 190;

export interface BlockDialogProps {
  readonly page: Page;
  readonly block: Block;
  readonly onDone: (block: Block) => void;
  readonly onClose: () => void;
}

/** What a chart or samples show; of a chart its axes and limits too, with a picture of it. */
export function BlockDialog({ page, block, onDone, onClose }: BlockDialogProps): JSX.Element {
  const isChart = block.kind === "chart";
  const isNew = block.series.length === 0;
  const sampleNames = useSampleNames(page, !isChart);
  const [draft, setDraft] = useState(block);
  const [text, setText] = useState("");
  const [ends, setEnds] = useState(
    (block.limits ?? [null, null]).map((end) => (end === null ? "" : String(end))),
  );
  const limits = ends.map((end) => (end === "" ? null : Number(end))) as [
    number | null,
    number | null,
  ];
  const problem =
    limits[0] !== null && limits[1] !== null && limits[0] >= limits[1]
      ? "The lower limit must be below the upper one."
      : null;
  const withText = text.trim() === "" ? draft.series : [...new Set([...draft.series, text.trim()])];
  const result: Block = {
    ...draft,
    series: withText,
    title: draft.title?.trim() || null,
    limits: limits.every((end) => end === null) || problem !== null ? null : limits,
  };
  const missing =
    isChart && wideOf(page).length === 0 ? missingText(draft.series, page.metrics.value) : null;
  return (
    <Dialog
      title={`${isNew ? "Add" : "Edit"} ${isChart ? (isNew ? "a chart" : "the chart") : "samples"}`}
      isOpen
      onClose={onClose}
    >
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          if (withText.length === 0 || problem !== null) return;
          onDone(result);
          onClose();
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey))
            event.currentTarget.requestSubmit();
        }}
      >
        <SeriesField
          names={isChart ? page.metrics.value.map(({ name }) => name) : sampleNames}
          series={draft.series}
          text={text}
          onText={setText}
          onChange={(series) => setDraft({ ...draft, series })}
        >
          {isChart ? (
            <>
              A metric, a pattern such as <code>eval/*</code>, or a formula such as{" "}
              <code>train/loss - eval/loss</code> or <code>ema(loss, 0.9)</code>. Enter adds it, and
              Enter once more finishes.
            </>
          ) : (
            <>
              A name of samples, or a pattern such as <code>val/*</code>.
            </>
          )}
        </SeriesField>
        <div class="form-row">
          <label>
            Title{" "}
            <input
              type="text"
              value={draft.title ?? ""}
              placeholder={withText.join(", ")}
              onInput={(event) => setDraft({ ...draft, title: event.currentTarget.value })}
            />
          </label>
          {isChart && (
            <label>
              X axis
              <select
                class="select"
                value={draft.x ?? ""}
                onChange={(event) => setDraft({ ...draft, x: event.currentTarget.value || null })}
              >
                <option value="">As in the control bar</option>
                {X_KINDS.map((kind) => (
                  <option key={kind} value={kind === "wall" ? "time" : kind}>
                    {axisName(kind)}
                  </option>
                ))}
                <optgroup label="Along a metric">
                  {page.metrics.value.slice(0, MOST_COMPLETIONS).map(({ name }) => (
                    <option key={name} value={name}>
                      {name}
                    </option>
                  ))}
                </optgroup>
              </select>
            </label>
          )}
        </div>
        {isChart && (
          <div class="form-row">
            {(["Lower limit of y", "Upper limit of y"] as const).map((label, end) => (
              <label key={label}>
                {label}{" "}
                <input
                  type="number"
                  step="any"
                  value={ends[end]}
                  placeholder="from the data"
                  onInput={(event) => setEnds(ends.with(end, event.currentTarget.value))}
                />
              </label>
            ))}
            <label class="check">
              <input
                type="checkbox"
                checked={draft.log_y}
                onChange={(event) => setDraft({ ...draft, log_y: event.currentTarget.checked })}
              />{" "}
              Logarithmic y
            </label>
          </div>
        )}
        {(problem ?? missing) !== null && (
          <p class="form-problem" role="status">
            {problem ?? missing}
          </p>
        )}
        {isChart && draft.series.length > Number(missing !== null) && (
          <Drawn page={page} spec={{ ...result, series: draft.series }} height={PREVIEW_PX} />
        )}
        <div class="form-row">
          <button
            type="submit"
            class="button is-primary"
            disabled={withText.length === 0 || problem !== null}
          >
            {isNew ? (isChart ? "Add the chart" : "Add the samples") : "Apply"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** The names of samples that the run in focus has, to complete. */
function useSampleNames({ source, runs }: Page, isWanted: boolean): readonly string[] {
  const [names, setNames] = useState<readonly string[]>([]);
  const run = runs.focus.value?.id;
  useEffect(() => {
    if (isWanted && run !== undefined)
      source.get("samples", run, {}).then(
        (found) => setNames(Object.keys(found.names)),
        () => undefined,
      );
  }, [isWanted, run]);
  return names;
}

interface SeriesFieldProps {
  /** To complete. */
  readonly names: readonly string[];
  readonly series: readonly string[];
  readonly text: string;
  readonly onText: (text: string) => void;
  readonly onChange: (series: readonly string[]) => void;
  /** What can be written here. */
  readonly children: ComponentChildren;
}

/** Chips, and a field that completes names inside formulas too. */
function SeriesField({
  names,
  series,
  text,
  onText,
  onChange,
  children,
}: SeriesFieldProps): JSX.Element {
  const id = useId();
  const add = (): void => {
    onChange([...new Set([...series, text.trim()])]);
    onText("");
  };
  const options =
    text === ""
      ? names
      : completionsOf(text, text.length, names).map((name) =>
          completed(text, text.length, name).text.trimEnd(),
        );
  return (
    <div class="form-field">
      <label for={`${id}-text`}>Series</label>
      {series.length > 0 && (
        <ul class="chips">
          {series.map((name) => (
            <li key={name} class="chip">
              <code>{name}</code>
              <button
                type="button"
                class="button is-quiet"
                aria-label={`Remove ${name}`}
                title="Remove"
                onClick={() => onChange(series.filter((one) => one !== name))}
              >
                ✕
              </button>
            </li>
          ))}
        </ul>
      )}
      <div class="form-line">
        <input
          id={`${id}-text`}
          type="text"
          list={`${id}-names`}
          value={text}
          placeholder={names[0] ?? ""}
          autocomplete="off"
          spellcheck={false}
          autofocus
          onInput={(event) => onText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && !event.ctrlKey && !event.metaKey && text.trim() !== "") {
              event.preventDefault();
              add();
            }
            if (event.key === "Backspace" && text === "" && series.length > 0)
              onChange(series.slice(0, -1));
          }}
        />
        <button type="button" class="button" disabled={text.trim() === ""} onClick={add}>
          Add series
        </button>
      </div>
      <datalist id={`${id}-names`}>
        {options.slice(0, MOST_COMPLETIONS).map((option) => (
          <option key={option} value={option} />
        ))}
      </datalist>
      <p class="card-note">{children}</p>
    </div>
  );
}

export type Naming = "save" | "copy" | "rename";

const NAMING: Readonly<Record<Naming, readonly [title: string, action: string]>> = {
  save: ["Save the board", "Save"],
  copy: ["Save a copy of the board", "Save the copy"],
  rename: ["Rename the board", "Rename"],
};

/** Gives the open board, or a copy of it, a name and a project. */
export function NameDialog({
  page,
  naming,
  onClose,
}: {
  readonly page: Page;
  readonly naming: Naming;
  readonly onClose: () => void;
}): JSX.Element {
  const { boards, view, runs } = page;
  const [title, action] = NAMING[naming];
  const name = boards.board.value?.name ?? "";
  const projects = chosenProjects(view.project.value, runs.projects.value) ?? runs.projects.value;
  const [text, setText] = useState(naming === "copy" ? `${name} copy` : name);
  const [project, setProject] = useState(
    boards.saved.value?.project ?? runs.focus.value?.project ?? projects[0] ?? "",
  );
  const [problem, setProblem] = useState<string | null>(null);
  return (
    <Dialog title={title} isOpen onClose={onClose}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          const given = text.trim();
          if (given !== "")
            (naming === "rename" ? boards.rename(given) : boards.save(project, given)).then(
              onClose,
              (error: unknown) =>
                setProblem(error instanceof Error ? error.message : String(error)),
            );
        }}
      >
        <label>
          Name{" "}
          <input
            type="text"
            value={text}
            maxLength={200}
            autofocus
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        {naming !== "rename" && projects.length > 1 && (
          <label>
            Project{" "}
            <select
              class="select"
              value={project}
              onChange={(event) => setProject(event.currentTarget.value)}
            >
              {projects.map((one) => (
                <option key={one} value={one}>
                  {one}
                </option>
              ))}
            </select>
          </label>
        )}
        {problem !== null && (
          <p class="form-problem" role="status">
            {problem}
          </p>
        )}
        <div class="form-row">
          <button type="submit" class="button is-primary" disabled={text.trim() === ""}>
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface Choices {
  readonly title: string;
  readonly choices: readonly MenuItem[];
  readonly onClose: () => void;
}

export function ChoiceDialog({ title, choices, onClose }: Choices): JSX.Element {
  return (
    <Dialog title={title} isOpen onClose={onClose}>
      <div class="choices">
        {choices.map(({ label, hint, run }, index) => (
          <button
            key={index}
            type="button"
            class="menu-item"
            autofocus={index === 0}
            onClick={() => {
              onClose();
              run();
            }}
          >
            <span>{label}</span>
            {hint !== undefined && <span class="menu-hint">{hint}</span>}
          </button>
        ))}
      </div>
    </Dialog>
  );
}

/** Which board a chart is added to: the open one, a saved one, or a new one. */
export function AddDialog({
  page,
  spec,
  onClose,
}: {
  readonly page: Page;
  readonly spec: ChartSpec;
  readonly onClose: () => void;
}): JSX.Element {
  const { boards } = page;
  const block = blockOf("chart", {
    series: spec.series,
    title: spec.title ?? null,
    x: spec.x ?? null,
    log_y: spec.log_y ?? false,
    limits: spec.limits ?? null,
  });
  const open = boards.board.value;
  const saved = (boards.stored.value ?? []).filter(
    ({ board, problem }) => problem === null && board !== boards.saved.value?.board,
  );
  useEffect(() => void boards.refresh(), []);
  const add = async (to: (typeof saved)[number]): Promise<void> => {
    await boards.add(to, block);
    page.toasts.show(`Added to “${to.board.name}”.`, "good", {
      label: "Open the board",
      run: () => {
        page.open("board");
        boards.open(to);
      },
    });
  };
  return (
    <ChoiceDialog
      title="Add to a board"
      onClose={onClose}
      choices={[
        ...(open === null
          ? []
          : [
              {
                label: open.name || "The new board",
                hint: "open",
                run: () => boards.change(withBlocks(open, open.blocks.length, 0, block)),
              },
            ]),
        ...saved.map((one) => ({
          label: one.board.name,
          hint: one.project,
          run: () => void page.toasts.attempt(() => add(one)),
        })),
        {
          label: "New board",
          run: () => {
            page.open("board");
            boards.create({ ...EMPTY_BOARD, blocks: [block] });
          },
        },
      ]}
    />
  );
}
