/** The blocks of a board in a grid of twelve columns: moved, joined and resized by mouse, by menu and by keys. */

import type { ComponentChildren, JSX } from "preact";
import { useRef, useState } from "preact/hooks";

import { Inline } from "../app/run-edit.tsx";
import {
  changed,
  HEIGHTS,
  joined,
  keyOf,
  moved,
  nearest,
  resized,
  specOf,
  WIDTHS,
  withBlocks,
} from "../state/boards.ts";
import type { Block, Board } from "../state/boards.ts";
import { titleOf } from "../state/chart-spec.ts";
import type { Page } from "../state/page.ts";
import { Empty } from "../ui/empty.tsx";
import { Menu } from "../ui/menu.tsx";
import type { MenuItem } from "../ui/menu.tsx";
import { BlockDialog, ChoiceDialog } from "./parts/board-dialogs.tsx";
import { useDrag } from "./parts/board-drag.ts";
import type { Attributes } from "./parts/board-drag.ts";
import { ChartCard } from "./parts/chart-card.tsx";
import { MarkdownText } from "./parts/markdown.tsx";
import { BoardSamples } from "./samples.tsx";

/** Heights of charts and samples. */
const BLOCK_PX: Readonly<Record<number, number>> = { 1: 150, 2: 260, 3: 460 };
/** The heading and the frame of a card. */
const HEAD_PX = 42;
const NAMES = { chart: "chart", text: "text", samples: "samples" } as const;

/** Give a block the focus once it is there; one that moves in the document loses it. Who has begun to type goes on. */
export function focusBlock(block: Block): void {
  requestAnimationFrame(() => {
    if (document.activeElement?.closest("input, textarea, select") == null)
      document.querySelector<HTMLElement>(`[data-block="${keyOf(block)}"]`)?.focus();
  });
}

export function Blocks({
  page,
  board,
}: {
  readonly page: Page;
  readonly board: Board;
}): JSX.Element {
  const { boards, toasts } = page;
  const { blocks } = board;
  const [editing, setEditing] = useState<Block | null>(null);
  const [joining, setJoining] = useState<number | null>(null);
  const areCharts = (...some: readonly number[]): boolean =>
    some.every((index) => blocks[index]?.kind === "chart");
  const change = (next: Board, focused?: Block): void => {
    boards.change(next);
    if (focused !== undefined) focusBlock(focused);
  };
  const join = (from: number, into: number): void =>
    change(joined(board, from, into), blocks[into]);
  const put = (at: number, removed: 0 | 1, block: Block): void =>
    change(withBlocks(board, at, removed, block), block);
  const remove = (index: number): void => {
    const undo = (): void => {
      const now = boards.board.value;
      if (now !== null && now.name === board.name)
        change(withBlocks(now, index, 0, blocks[index]!), blocks[index]);
    };
    change(withBlocks(board, index, 1), blocks[index + 1] ?? blocks[index - 1]);
    toasts.show(`The ${NAMES[blocks[index]!.kind]} was deleted.`, "info", {
      label: "Undo",
      run: undo,
    });
  };
  const drag = useDrag<number>(
    (from, over) => (areCharts(from, over) ? ["before", "join", "after"] : ["before", "after"]),
    (from, over, hint) => {
      if (hint === "join") join(from, over);
      else change(moved(board, from, over - Number(from < over) + Number(hint === "after")));
    },
  );
  if (blocks.length === 0)
    return (
      <Empty title="This board is empty">
        Add a chart, a text or samples above, or choose “Add to a board…” in the menu of any chart.
      </Empty>
    );
  return (
    <div class="blocks">
      <h2 class="visually-hidden">{board.name || "New board"}</h2>
      {blocks.map((block, index) => {
        const isText = block.kind === "text";
        const resize = (wider: number, higher: number): void =>
          put(index, 1, resized(block, wider, isText ? 0 : higher));
        const move = (by: number): void => change(moved(board, index, index + by), block);
        const edit = (): void => setEditing(block);
        const items: readonly (MenuItem | "divider")[] = [
          { label: "Edit…", hint: "e", run: edit },
          ...(block.kind === "chart" &&
          blocks.some((_, other) => other !== index && areCharts(other))
            ? [{ label: "Join with…", run: () => setJoining(index) }]
            : []),
          { label: "Duplicate", run: () => put(index + 1, 0, { ...block }) },
          { label: "Delete", hint: "Del", run: () => remove(index) },
          "divider",
          { label: "Move earlier", hint: "←", isDisabled: index === 0, run: () => move(-1) },
          {
            label: "Move later",
            hint: "→",
            isDisabled: index === blocks.length - 1,
            run: () => move(1),
          },
          {
            label: "Wider",
            hint: "⇧ →",
            isDisabled: block.width === WIDTHS.at(-1),
            run: () => resize(1, 0),
          },
          {
            label: "Narrower",
            hint: "⇧ ←",
            isDisabled: block.width === WIDTHS[0],
            run: () => resize(-1, 0),
          },
          ...(isText
            ? []
            : [
                {
                  label: "Taller",
                  hint: "⇧ ↓",
                  isDisabled: block.height === HEIGHTS.at(-1),
                  run: () => resize(0, 1),
                },
                {
                  label: "Shorter",
                  hint: "⇧ ↑",
                  isDisabled: block.height === HEIGHTS[0],
                  run: () => resize(0, -1),
                },
              ]),
          "divider",
        ];
        const keys: Readonly<Record<string, () => void>> = {
          e: edit,
          Enter: edit,
          Delete: () => remove(index),
          Backspace: () => remove(index),
          ArrowLeft: () => move(-1),
          ArrowUp: () => move(-1),
          ArrowRight: () => move(1),
          ArrowDown: () => move(1),
          "⇧ArrowRight": () => resize(1, 0),
          "⇧ArrowLeft": () => resize(-1, 0),
          "⇧ArrowDown": () => resize(0, 1),
          "⇧ArrowUp": () => resize(0, -1),
        };
        return (
          <BlockFrame
            key={keyOf(block)}
            block={block}
            canChange={boards.canSave}
            drop={drag.target(index)}
            keys={keys}
            onSize={(size) => put(index, 1, changed(block, size))}
          >
            {(size) => (
              <Content
                page={page}
                block={block}
                height={BLOCK_PX[size.height]!}
                items={boards.canSave ? items : []}
                head={boards.canSave ? drag.handle(index) : undefined}
                isEditing={editing === block || (isText && block.text === "" && boards.canSave)}
                onText={(text) => {
                  setEditing(null);
                  if (text !== null && text !== block.text) put(index, 1, changed(block, { text }));
                  else if (text === null) focusBlock(block);
                }}
              />
            )}
          </BlockFrame>
        );
      })}
      {editing !== null && editing.kind !== "text" && (
        <BlockDialog
          page={page}
          block={editing}
          onDone={(block) => put(blocks.indexOf(editing), 1, changed(editing, block))}
          onClose={() => setEditing(null)}
        />
      )}
      {joining !== null && (
        <ChoiceDialog
          title={`Join ${titleOf(blocks[joining]!)} with`}
          onClose={() => setJoining(null)}
          choices={blocks.flatMap((block, index) =>
            index === joining || block.kind !== "chart"
              ? []
              : [{ label: titleOf(block), run: () => join(index, joining) }],
          )}
        />
      )}
    </div>
  );
}

type Size = Pick<Block, "width" | "height">;

interface BlockFrameProps {
  readonly block: Block;
  readonly canChange: boolean;
  readonly drop: Attributes;
  /** What keys do while the block has the focus. */
  readonly keys: Readonly<Record<string, () => void>>;
  readonly onSize: (size: Size) => void;
  readonly children: (size: Size) => ComponentChildren;
}

function BlockFrame({
  block,
  canChange,
  drop,
  keys,
  onSize,
  children,
}: BlockFrameProps): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const [dragged, setDragged] = useState<Size | null>(null);
  const size = dragged ?? block;
  const onKeyDown = (event: KeyboardEvent): void => {
    const run = keys[`${event.shiftKey ? "⇧" : ""}${event.key}`];
    if (
      event.target !== event.currentTarget ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      run === undefined
    )
      return;
    event.preventDefault();
    run();
  };
  const sizeAt = ({ clientX, clientY }: PointerEvent): Size => {
    const { left, top } = frame.current!.getBoundingClientRect();
    const heights = HEIGHTS.map((height) => BLOCK_PX[height]!);
    return {
      width: nearest(WIDTHS, ((clientX - left) / frame.current!.parentElement!.clientWidth) * 12),
      height:
        block.kind === "text"
          ? block.height
          : HEIGHTS[heights.indexOf(nearest(heights, clientY - top - HEAD_PX))]!,
    };
  };
  return (
    <div
      ref={frame}
      class={`block${dragged === null ? "" : " is-resized"}`}
      data-block={keyOf(block)}
      style={{ "--span": String(size.width), "--half": size.width > 6 ? "12" : "6" }}
      role="group"
      aria-label={`${NAMES[block.kind]} ${titleOf(block)}`.trim()}
      {...(canChange ? { ...drop, tabIndex: 0, onKeyDown } : {})}
    >
      {children(size)}
      {canChange && (
        <span
          class="block-handle"
          aria-hidden="true"
          title="Drag to resize"
          onPointerDown={(event) => {
            event.preventDefault();
            event.currentTarget.setPointerCapture(event.pointerId);
            setDragged(sizeAt(event));
          }}
          onPointerMove={(event) => dragged !== null && setDragged(sizeAt(event))}
          onPointerCancel={() => setDragged(null)}
          onPointerUp={() => {
            setDragged(null);
            if (
              dragged !== null &&
              (dragged.width !== block.width || dragged.height !== block.height)
            )
              onSize(dragged);
          }}
        />
      )}
    </div>
  );
}

interface ContentProps {
  readonly page: Page;
  readonly block: Block;
  readonly height: number;
  readonly items: readonly (MenuItem | "divider")[];
  readonly head: Attributes | undefined;
  readonly isEditing: boolean;
  /** With null the text stays as it was. */
  readonly onText: (text: string | null) => void;
}

function Content({
  page,
  block,
  height,
  items,
  head,
  isEditing,
  onText,
}: ContentProps): JSX.Element {
  if (block.kind === "chart")
    return (
      <ChartCard
        page={page}
        spec={specOf(block)}
        height={height}
        items={items}
        head={head}
        isOnBoard
      />
    );
  if (block.kind === "text") {
    return (
      <div class={`block-text${isEditing ? " is-edited" : ""}`}>
        {isEditing ? (
          <Inline
            label="Text in Markdown"
            text={block.text}
            rows={Math.max(4, block.text.split("\n").length + 1)}
            onEnd={onText}
          />
        ) : (
          <MarkdownText text={block.text} />
        )}
        {items.length > 0 && (
          <div class="block-tools" {...head}>
            <span aria-hidden="true">⠿</span>
            <Menu label="Actions for the text" items={items}>
              ⋯
            </Menu>
          </div>
        )}
      </div>
    );
  }
  const title = titleOf(block);
  return (
    <section class="card block-samples" aria-label={title}>
      <header class="card-head" {...head}>
        <h3 title={title}>{title}</h3>
        <span class="card-space" />
        {items.length > 0 && (
          <Menu label={`Actions for ${title}`} items={items}>
            ⋯
          </Menu>
        )}
      </header>
      <div class="block-rows" style={{ height: `${height}px` }}>
        <BoardSamples page={page} names={block.series} />
      </div>
    </section>
  );
}
