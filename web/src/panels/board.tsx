/** Charts and samples that people arrange: all metrics, or the blocks of a board. */

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";

import { formatNumberOf } from "../chart/index.ts";
import { blockOf, EMPTY_BOARD, withBlocks } from "../state/boards.ts";
import type { Block } from "../state/boards.ts";
import type { Page } from "../state/page.ts";
import { MOST_SHOWN } from "../state/runs.ts";
import { Empty } from "../ui/empty.tsx";
import { Menu } from "../ui/menu.tsx";
import type { MenuItem } from "../ui/menu.tsx";
import { Blocks, focusBlock } from "./board-blocks.tsx";
import { BlockDialog, NameDialog } from "./parts/board-dialogs.tsx";
import type { Naming } from "./parts/board-dialogs.tsx";
import { ColorKeys, Display } from "./board-display.tsx";
import { AllMetrics, beginBoard } from "./board-metrics.tsx";
import type { PanelProps } from "./panel.ts";
import "./board.css";

export function Board({ page }: PanelProps): JSX.Element {
  const { boards, view } = page;
  const board = boards.board.value;
  return (
    <div class="board">
      {board === null && view.board.value === null ? (
        <AllMetrics page={page} bar={(search) => <BoardBar page={page}>{search}</BoardBar>} />
      ) : (
        <>
          <BoardBar page={page} />
          <Conflict page={page} />
          {board === null ? (
            <MissingBoard page={page} name={view.board.value!} />
          ) : (
            <Blocks page={page} board={board} />
          )}
        </>
      )}
    </div>
  );
}

function MissingBoard({
  page: { boards },
  name,
}: {
  readonly page: Page;
  readonly name: string;
}): JSX.Element {
  if (boards.stored.value === null)
    return (
      <div class="pane" aria-busy="true">
        <p class="card-note">Loading the board…</p>
      </div>
    );
  const broken = boards.named.value?.problem ?? boards.problem.value;
  return (
    <Empty
      title={
        broken === null ? `There is no board “${name}” here` : `The board “${name}” cannot be shown`
      }
    >
      {broken ?? "It may have been renamed or deleted, or it belongs to another project."}{" "}
      <button type="button" class="link" onClick={() => boards.open(null)}>
        Show all metrics
      </button>
    </Empty>
  );
}

function BoardBar({
  page,
  children,
}: {
  readonly page: Page;
  readonly children?: ComponentChildren;
}): JSX.Element {
  const { boards, view, runs } = page;
  const board = boards.board.value;
  const [adding, setAdding] = useState<Block | null>(null);
  const stored = boards.stored.value ?? [];
  const add = (block: Block): void => {
    if (board === null) beginBoard(page, block);
    else {
      boards.change(withBlocks(board, board.blocks.length, 0, block));
      focusBlock(block);
    }
  };
  const name =
    board === null
      ? (boards.named.value?.board.name ?? view.board.value ?? "All metrics")
      : board.name || "New board";
  return (
    <>
      <div class="toolbar board-bar">
        <Menu
          label={`Board: ${name}`}
          items={[
            {
              label: "All metrics",
              isOn: board === null && view.board.value === null,
              run: () => boards.open(null),
            },
            ...(stored.length === 0 ? [] : ["divider" as const]),
            ...stored.map((one) => ({
              label: one.board.name,
              isOn: boards.named.value === one,
              ...(one.problem !== null
                ? { hint: "cannot be read" }
                : runs.projects.value.length > 1
                  ? { hint: one.project }
                  : {}),
              run: () => boards.open(one),
            })),
            ...(boards.canSave
              ? ["divider" as const, { label: "New board", run: () => boards.create(EMPTY_BOARD) }]
              : []),
          ]}
        >
          <b class="board-name">{name}</b> ▾
        </Menu>
        {boards.canSave && (
          <>
            <button type="button" class="button" onClick={() => setAdding(blockOf("chart"))}>
              + chart
            </button>
            <button
              type="button"
              class="button"
              onClick={() => add(blockOf("text", { width: 12 }))}
            >
              + text
            </button>
            <button
              type="button"
              class="button"
              onClick={() => setAdding(blockOf("samples", { width: 12 }))}
            >
              + samples
            </button>
          </>
        )}
        {children}
        <Display page={page} />
        {board?.runs != null && (
          <span class="board-frozen" title="This board shows these runs only, and no new ones.">
            {formatNumberOf(board.runs.length, "frozen run")}
          </span>
        )}
        <span class="board-space" />
        {board !== null && boards.canSave && <SaveTools page={page} />}
        {adding !== null && (
          <BlockDialog page={page} block={adding} onDone={add} onClose={() => setAdding(null)} />
        )}
      </div>
      <ColorKeys page={page} />
    </>
  );
}

/** Whether the board is saved, and what can be done about it. */
function SaveTools({ page }: { readonly page: Page }): JSX.Element {
  const { boards, toasts } = page;
  const [saved, board, isChanged] = [
    boards.saved.value,
    boards.board.value!,
    boards.isChanged.value,
  ];
  const [naming, setNaming] = useState<Naming | null>(null);
  const remove = async (): Promise<void> => {
    await boards.remove();
    toasts.show(`The board “${saved!.board.name}” was deleted.`, "info", {
      label: "Undo",
      run: () => void toasts.attempt(() => boards.restore(saved!)),
    });
  };
  const save = (): void => {
    if (isChanged && saved === null) setNaming("save");
    else if (isChanged) void toasts.attempt(() => boards.save(saved!.project, saved!.board.name));
  };
  const items: (MenuItem | "divider")[] = [
    ...(saved === null
      ? []
      : [
          { label: "Rename…", run: () => setNaming("rename") },
          { label: "Save as a copy…", run: () => setNaming("copy") },
        ]),
    {
      label: saved === null ? "Discard" : "Revert to the saved board",
      isDisabled: !isChanged,
      run: () => boards.open(saved),
    },
    "divider",
    board.runs === null
      ? {
          label: "Freeze the runs",
          hint: "for a report",
          run: () => boards.change({ ...board, runs: runsToFreeze(page) }),
        }
      : { label: "Show new runs again", run: () => boards.change({ ...board, runs: null }) },
    ...(saved === null
      ? []
      : [
          "divider" as const,
          { label: "Delete the board", run: () => void toasts.attempt(remove) },
        ]),
  ];
  return (
    <>
      <span class="card-note" role="status">
        {saved === null ? "not saved yet" : isChanged ? "unsaved changes" : "saved"}
      </span>
      <button
        type="button"
        class={`button${isChanged ? " is-primary" : ""}`}
        aria-disabled={!isChanged}
        onClick={save}
      >
        Save
      </button>
      <Menu label="Actions for the board" items={items}>
        ⋯
      </Menu>
      {naming !== null && (
        <NameDialog page={page} naming={naming} onClose={() => setNaming(null)} />
      )}
    </>
  );
}

/** Somebody else saved the board: nothing is lost, and nothing is replaced. */
function Conflict({ page }: { readonly page: Page }): JSX.Element | null {
  const { boards } = page;
  const [isCopying, setCopying] = useState(false);
  if (boards.conflict.value === null || !boards.canSave) return null;
  return (
    <p class="problem board-conflict" role="alert">
      <span>{boards.conflict.value}</span>
      <button type="button" class="button" onClick={() => setCopying(true)}>
        Save as a copy
      </button>
      {boards.saved.value !== null && (
        <button type="button" class="button" onClick={() => boards.open(boards.saved.value)}>
          Load the newer one
        </button>
      )}
      {isCopying && <NameDialog page={page} naming="copy" onClose={() => setCopying(false)} />}
    </p>
  );
}

/** The runs in the charts; of groups, all members. */
function runsToFreeze({ runs, view }: Page): readonly string[] {
  const rows =
    view.groupBy.value === null
      ? runs.shown.value
      : runs.fitting.value.filter(({ hidden }) => !hidden);
  return rows.slice(0, MOST_SHOWN).map(({ id }) => id);
}
