/** Boards: charts, texts and samples that people arrange. A saved one is a file of its project; unsaved changes are in the address. */

import { batch, computed, effect, signal } from "@preact/signals";

import { SourceError } from "../source/source.ts";
import type { Source } from "../source/source.ts";
import { isQuery, wordsQuery } from "../ui/filter.ts";
import type { Board as WireBoard, StoredBoard as WireStoredBoard, XKind } from "../wire.ts";
import type { ChartSpec } from "./chart-spec.ts";
import { X_KINDS } from "./view.ts";
import type { SpreadChoice, View } from "./view.ts";

export interface Block extends ChartSpec {
  readonly kind: "chart" | "text" | "samples";
  readonly text: string;
  readonly title: string | null;
  readonly x: string | null;
  readonly log_y: boolean;
  readonly limits: readonly [number | null, number | null] | null;
  /** In columns, of which a row has twelve. */
  readonly width: number;
  readonly height: number;
}

export interface Board {
  readonly name: string;
  readonly query: string | null;
  /** Ids of the only runs that it shows: a report. Null follows the query. */
  readonly runs: readonly string[] | null;
  readonly group: string | null;
  readonly spread: string | null;
  readonly x: string | null;
  readonly smooth: number;
  readonly blocks: readonly Block[];
}

export interface StoredBoard extends Omit<WireStoredBoard, "board"> {
  readonly board: Board;
}

/** Unsaved changes, and the revision of the saved board that they began with. */
interface Draft {
  readonly revision: string | null;
  readonly board: Board;
}

export const WIDTHS: readonly number[] = [3, 4, 6, 8, 12];
export const HEIGHTS: readonly number[] = [1, 2, 3];
export const EMPTY_BOARD: Board = {
  name: "",
  query: null,
  runs: null,
  group: null,
  spread: null,
  x: null,
  smooth: 0,
  blocks: [],
};
const PLAIN_BLOCK: Block = {
  kind: "chart",
  text: "",
  series: [],
  title: null,
  x: null,
  log_y: false,
  limits: null,
  width: 6,
  height: 2,
};
const KINDS: readonly unknown[] = ["chart", "text", "samples"];
const CONFLICT = 409;
const SMOOTHEST = 0.99;
/** A board that is made of all charts on the page has no more than so many: it has to go into an address. */
export const MOST_CHARTS = 40;

export function blockOf(kind: Block["kind"], fields: Partial<Block> = {}): Block {
  return { ...PLAIN_BLOCK, kind, ...fields };
}

/** What a chart block draws; one that is not logarithmic follows the choice for all charts. */
export function specOf({ series, title, x, limits, log_y }: Block): ChartSpec {
  return { series, title, x, limits, ...(log_y ? { log_y } : {}) };
}

/** A board with a chart for each of some metrics. */
export function boardOf(names: readonly string[]): Board {
  return {
    ...EMPTY_BOARD,
    blocks: names
      .slice(0, MOST_CHARTS)
      .map((name) => blockOf("chart", { series: [name], width: 4 })),
  };
}

// What happens to blocks. A block that is changed keeps its key, so that its chart stays where it is on the page.

const keys = new WeakMap<Block, number>();
let lastKey = 0;

export function keyOf(block: Block): number {
  if (!keys.has(block)) keys.set(block, ++lastKey);
  return keys.get(block)!;
}

export function changed(block: Block, change: Partial<Block>): Block {
  const next = { ...block, ...change };
  keys.set(next, keyOf(block));
  return next;
}

export function withBlocks(
  board: Board,
  ...splice: [at: number, remove: number, ...blocks: Block[]]
): Board {
  return { ...board, blocks: board.blocks.toSpliced(...splice) };
}

/** The board with a block in another place, counted without the block itself. */
export function moved(board: Board, from: number, to: number): Board {
  const block = board.blocks[from]!;
  const others = board.blocks.toSpliced(from, 1);
  return { ...board, blocks: others.toSpliced(Math.max(0, Math.min(others.length, to)), 0, block) };
}

/** The board with the series of one chart drawn in another chart. */
export function joined(board: Board, from: number, into: number): Board {
  const [one, other] = [board.blocks[from]!, board.blocks[into]!];
  const series = [...new Set([...other.series, ...one.series])];
  const title =
    other.title === null ? null : [other.title, one.title].filter((part) => part).join(", ");
  return withBlocks(withBlocks(board, into, 1, changed(other, { series, title })), from, 1);
}

/** A block that is so many sizes wider and higher, as far as there are sizes. */
export function resized(block: Block, wider: number, higher: number): Block {
  const next = (sizes: readonly number[], size: number, by: number): number =>
    sizes[Math.max(0, Math.min(sizes.length - 1, sizes.indexOf(size) + by))]!;
  return changed(block, {
    width: next(WIDTHS, block.width, wider),
    height: next(HEIGHTS, block.height, higher),
  });
}

/** The size that is nearest to a number. */
export function nearest(sizes: readonly number[], wanted: number): number {
  return sizes.reduce((best, size) =>
    Math.abs(size - wanted) < Math.abs(best - wanted) ? size : best,
  );
}

/** A board without what is as usual: that is short in an address, and equal for equal boards. */
export function compact(board: Board): object {
  const own = (fields: object, usual: object): object =>
    Object.fromEntries(
      Object.keys(usual)
        .map((key) => [key, fields[key as keyof object] as unknown] as const)
        .filter(
          ([key, value]) => JSON.stringify(value) !== JSON.stringify(usual[key as keyof object]),
        ),
    );
  return {
    ...own(board, EMPTY_BOARD),
    blocks: board.blocks.map((block) => ({ kind: block.kind, ...own(block, blockOf(block.kind)) })),
  };
}

/** A board as somebody wrote it, with what is missing as usual; null for what is no board. */
export function readBoard(value: unknown): Board | null {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const board = filled(EMPTY_BOARD, value);
  const blocks = board.blocks
    .filter((block) => KINDS.includes(block?.kind))
    .map((block): Block => {
      const read = filled(blockOf(block.kind), block);
      return {
        ...read,
        width: nearest(WIDTHS, read.width),
        height: nearest(HEIGHTS, read.height),
        series: read.series.filter((name) => typeof name === "string"),
      };
    });
  const { group, spread, x } = board;
  return {
    ...board,
    blocks,
    spread: group === null || spread === "std" ? null : spread,
    x: axisOf(kindOf(x)),
    smooth: Math.max(0, Math.min(SMOOTHEST, board.smooth)),
  };
}

/** The x axis of the control bar for that of a board, which may be none of them, and the other way round. */
const kindOf = (x: string | null): XKind =>
  X_KINDS.find((kind) => kind === (x === "time" ? "wall" : x)) ?? "step";
const axisOf = (x: XKind): string | null => (x === "step" ? null : x === "wall" ? "time" : x);

function isLimits(value: readonly unknown[]): boolean {
  const [low, high] = value;
  return (
    value.length === 2 &&
    value.every((end) => end === null || Number.isFinite(end)) &&
    (low === null || high === null || low! < high!)
  );
}

/** Fields that have the type of the usual ones, or a type where those are null. */
function filled<Fields extends object>(usual: Fields, given: object): Fields {
  const fits = (key: string, value: unknown): boolean => {
    const like = (usual as Record<string, unknown>)[key];
    if (key === "runs" || key === "limits")
      return (
        Array.isArray(value) &&
        (key === "limits" ? isLimits(value) : value.every((id) => typeof id === "string"))
      );
    return like === null
      ? typeof value === "string"
      : Array.isArray(like)
        ? Array.isArray(value)
        : typeof value === typeof like;
  };
  return {
    ...usual,
    ...Object.fromEntries(
      Object.entries(given).filter(([key, value]) => key in usual && fits(key, value)),
    ),
  };
}

/** What the control bar has, in the address and as a board keeps it. */
const SETTINGS = ["filter", "group", "spread", "x", "smooth"];
type Settings = Pick<Board, "query" | "group" | "spread" | "x" | "smooth">;

/** What is as usual is null: a band of one standard deviation, steps. */
function settingsOf(view: View): Settings {
  const text = view.filter.value.trim();
  const query = isQuery(text) ? text : wordsQuery(text);
  const [group, spread, x] = [view.groupBy.value, view.spread.value, view.x.value];
  return {
    query: query || null,
    group,
    spread: group === null || spread === "std" ? null : spread,
    x: axisOf(x),
    smooth: view.smoothness.value,
  };
}

function applySettings(view: View, { query, group, spread, x, smooth }: Settings): void {
  batch(() => {
    view.filter.value = query ?? "";
    view.groupBy.value = group;
    if (group !== null) view.spread.value = (spread ?? "std") as SpreadChoice;
    view.x.value = kindOf(x);
    view.smoothness.value = smooth;
  });
}

export type Boards = ReturnType<typeof createBoards>;

export function createBoards(source: Source, view: View) {
  const stored = signal<readonly StoredBoard[] | null>(null);
  /** Why the boards have not come. */
  const problem = signal<string | null>(null);
  const refusal = signal<string | null>(null);
  /** Boards by the text of the address, so that a step back finds the same blocks. */
  const known = new Map<string, Draft | null>();
  /** Revisions that this page saved one after the other: its older drafts are no conflict with them. */
  let own = new Set<string | null>();
  const draft = computed((): Draft | null => {
    const text = view.draft.value;
    if (!known.has(text)) known.set(text, readDraft(text));
    return known.get(text)!;
  });
  /** Those of the projects in view; null until they have come. */
  const ofProject = computed(() => {
    const chosen = view.project.value;
    return (
      stored.value?.filter(
        ({ project }) =>
          chosen === null || chosen === project || chosen.split(",").includes(project),
      ) ?? null
    );
  });
  /** The stored board that the address names, which may be one that cannot be read. */
  const named = computed(
    () =>
      ofProject.value?.find((one) => addressOf(one) === view.board.value) ??
      ofProject.value?.find((one) => one.board.name === view.board.value) ??
      null,
  );
  /** The open board as it was saved last; null for one that never was. */
  const saved = computed(() => (named.value?.problem === null ? named.value : null));
  /** The one that is open, with its changes; null for all metrics. */
  const board = computed(() => draft.value?.board ?? saved.value?.board ?? null);
  const current = (): Board => ({ ...board.value!, ...settingsOf(view) });
  const isChanged = computed(() => {
    if (board.value === null) return false;
    if (saved.value === null) return draft.value !== null;
    return textOf(current()) !== textOf(saved.value.board);
  });
  const revisionOf = ({ revision }: Draft): string | null =>
    own.has(revision) && own.has(saved.value!.revision) ? saved.value!.revision : revision;
  /** Why the board cannot be saved under its name: somebody else saved it in the meantime. */
  const conflict = computed(() => {
    if (refusal.value !== null || saved.value === null || draft.value === null)
      return refusal.value;
    return revisionOf(draft.value) === saved.value.revision
      ? null
      : `Somebody else saved “${saved.value.board.name}” after you opened it.`;
  });
  /** The only runs that are shown; null without a report. */
  const frozen = computed(() =>
    view.place.value === "board" ? (board.value?.runs ?? null) : null,
  );

  const put = (one: StoredBoard): StoredBoard => {
    const others = (stored.peek() ?? []).filter(
      ({ project, board: { name } }) => project !== one.project || name !== one.board.name,
    );
    stored.value = [...others, one].sort((first, second) =>
      first.board.name.localeCompare(second.board.name),
    );
    return one;
  };
  const send = async (
    project: string,
    wanted: Board,
    revision: string | null,
  ): Promise<StoredBoard> => {
    const answer = await source.boards.save!(project, compact(wanted) as WireBoard, revision);
    return { ...answer, board: readBoard(answer.board)! };
  };
  const drop = async ({ project, revision, board: { name } }: StoredBoard): Promise<void> => {
    await source.boards.remove!(project, name, revision);
    stored.value = stored.value!.filter(
      (one) => one.project !== project || one.board.name !== name,
    );
  };
  const boards = {
    stored: ofProject,
    problem,
    board,
    named,
    saved,
    isChanged,
    conflict,
    frozen,
    /** Whether boards can be changed here, which those of an archive cannot. */
    canSave: source.boards.save !== null,
    async refresh(): Promise<void> {
      try {
        const { boards: found } = await source.boards.list();
        const [before, wasChanged] = [saved.peek(), isChanged.peek()];
        stored.value = found.flatMap((one) => {
          const read = readBoard(one.board);
          return read === null ? [] : [{ ...one, board: read }];
        });
        problem.value = null;
        // Another project may get a board of this name.
        if (named.peek() !== null) view.board.value = addressOf(named.peek()!);
        const isFirst = before === null && !SETTINGS.some((key) => view.named.has(key));
        const isNewer =
          before !== null && !wasChanged && before.revision !== saved.peek()?.revision;
        if (view.draft.peek() === "" && saved.peek() !== null && (isFirst || isNewer))
          applySettings(view, saved.peek()!.board);
      } catch (error) {
        problem.value = error instanceof Error ? error.message : String(error);
        stored.value ??= [];
      }
    },
    /** Open a saved board, as it was saved; null for all metrics. */
    open(wanted: StoredBoard | null): void {
      batch(() => {
        refusal.value = null;
        view.board.value = wanted === null ? null : addressOf(wanted);
        view.draft.value = "";
        view.full.value = null;
        if (saved.peek() === null) return;
        applySettings(view, saved.peek()!.board);
        if (saved.peek()!.board.runs === null) return;
        view.shown.value = null;
        view.isAll.value = false;
      });
    },
    /** Open a board that was not saved. */
    create(made: Board): void {
      batch(() => {
        boards.open(null);
        boards.change(made);
      });
    },
    change(next: Board): void {
      const revision =
        draft.peek() === null ? (saved.peek()?.revision ?? null) : draft.peek()!.revision;
      const text = JSON.stringify({ ...compact(next), ...(revision === null ? {} : { revision }) });
      known.set(text, { board: next, revision });
      // Blocks that are as they were saved are no draft.
      const isSaved =
        saved.peek() !== null &&
        revision === saved.peek()!.revision &&
        textOf(next) === textOf(saved.peek()!.board);
      view.draft.value = isSaved ? "" : text;
    },
    /** Save the open board; under another name it is a copy. */
    async save(project: string, name: string): Promise<void> {
      const wanted = { ...current(), name };
      const isSame = saved.peek()?.board.name === name && saved.peek()!.project === project;
      const revision = !isSame
        ? null
        : draft.peek() === null
          ? saved.peek()!.revision
          : revisionOf(draft.peek()!);
      try {
        const answer = await send(project, wanted, revision);
        own = (own.has(revision) ? own : new Set([revision])).add(answer.revision);
        if (isSame || view.board.peek() === null) view.continueStep();
        batch(() => {
          put(answer);
          refusal.value = null;
          view.board.value = addressOf(answer);
          view.draft.value = "";
        });
      } catch (error) {
        if (!isSame || !(error instanceof SourceError) || error.status !== CONFLICT) throw error;
        await boards.refresh();
        refusal.value = error.message;
      }
    },
    async rename(name: string): Promise<void> {
      await boards.refresh();
      const before = saved.peek();
      if (before === null || conflict.peek() !== null)
        throw new Error(conflict.peek() ?? "Somebody else deleted this board.");
      if (name === before.board.name) return;
      await boards.save(before.project, name);
      await drop(before);
    },
    async remove(): Promise<void> {
      await drop(saved.peek()!);
      boards.open(null);
    },
    /** Save a board again that was deleted, and open it. */
    async restore({ project, board: deleted }: StoredBoard): Promise<void> {
      boards.open(put(await send(project, deleted, null)));
    },
    /** Add a block to a board that is not open. */
    async add(to: StoredBoard, block: Block): Promise<void> {
      put(
        await send(to.project, withBlocks(to.board, to.board.blocks.length, 0, block), to.revision),
      );
    },
  };
  effect(() => {
    if (stored.value === null && view.place.value === "board") void boards.refresh();
  });
  // People work at several windows and machines: who comes back sees what the others saved.
  window.addEventListener("focus", () => void (stored.peek() !== null && boards.refresh()));
  return boards;
}

/** How the address names a board: several projects may have one of the same name. */
function addressOf({ project, board: { name } }: StoredBoard): string {
  return `${project}/${name}`;
}

function textOf(board: Board): string {
  return JSON.stringify(compact(board));
}

function readDraft(text: string): Draft | null {
  if (text === "") return null;
  try {
    const value: unknown = JSON.parse(text);
    const board = readBoard(value);
    const revision = (value as { readonly revision?: unknown } | null)?.revision;
    return board === null
      ? null
      : { board, revision: typeof revision === "string" ? revision : null };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return null;
  }
}
