/** The list of a store with more runs than a page holds: the server filters, orders and groups, and sends the rows in view. */

import { computed, effect, signal } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";

import type { Source } from "../source/source.ts";
import { quoted } from "../ui/filter.ts";
import type { RunGroup, RunList } from "../wire.ts";

export interface ListRequest {
  /** False while this page holds every run itself. */
  readonly isOn: boolean;
  readonly query: string;
  readonly order: string;
  /** Fields of the server, with commas between; empty without groups. */
  readonly group: string;
}

export interface RunPages {
  /** How many runs fit; null until the first answer. */
  readonly total: ReadonlySignal<number | null>;
  /** In the list's order; undefined where a row has not come yet. */
  readonly ids: ReadonlySignal<readonly (string | undefined)[]>;
  readonly groups: ReadonlySignal<readonly RunGroup[] | null>;
  readonly problem: ReadonlySignal<string | null>;
  /** How many runs the server has not read yet as far as the list needs. */
  readonly pending: ReadonlySignal<number>;
  /** Ask for the rows from an index up to another, unless they are there or on their way. */
  want(start: number, stop: number): void;
  /** Take an answer that came before the list was on: it is the beginning of this list. */
  seed(list: RunList, request: ListRequest): void;
  reload(): void;
}

/** So many rows come with one answer. */
const PAGE_ROWS = 100;
const TYPING_MS = 60;
const AGAIN_MS = 1000;

export function createRunPages(source: Source, request: ReadonlySignal<ListRequest>, summaries: readonly string[], onList: (list: RunList) => void): RunPages {
  const total = signal<number | null>(null);
  const ids = signal<readonly (string | undefined)[]>([]);
  const groups = signal<readonly RunGroup[] | null>(null);
  const problem = signal<string | null>(null);
  const pending = signal(0);
  const asked = new Set<number>();
  let version = 0;
  /** The version whose rows are shown. */
  let shownFor = -1;
  let key = "";
  let isBusy = false;
  let isWantedAgain = false;
  let lastWanted: readonly [number, number] = [0, PAGE_ROWS];

  const fetchPage = async (page: number, isFirst: boolean): Promise<void> => {
    const mine = version;
    const { query, order, group } = request.peek();
    asked.add(page);
    try {
      const list = await source.runs({ query, ...(order === "" ? {} : { order }), offset: page * PAGE_ROWS, limit: PAGE_ROWS, withConfig: true, summaries, ...(isFirst ? { withProjects: true } : {}), ...(isFirst && group !== "" ? { group } : {}) });
      if (mine !== version) return;
      onList(list);
      // A list that was asked for again keeps the rows that are there until newer ones come.
      const isSame = ids.peek().length === list.total && shownFor === mine;
      const next = isSame ? [...ids.peek()] : new Array<string | undefined>(list.total);
      shownFor = mine;
      list.rows.forEach(({ id }, index) => (next[page * PAGE_ROWS + index] = id));
      if (isFirst) groups.value = list.groups ?? null;
      ids.value = next;
      total.value = list.total;
      pending.value = list.pending ?? 0;
      problem.value = null;
    } catch (error) {
      if (mine !== version) return;
      asked.delete(page);
      problem.value = error instanceof Error ? error.message : String(error);
    }
  };
  const want = (start: number, stop: number): void => {
    if (!request.peek().isOn || total.peek() === null) return;
    lastWanted = [start, stop];
    const end = Math.min(stop, total.peek()!);
    for (let page = Math.floor(start / PAGE_ROWS); page * PAGE_ROWS < end; page++) if (!asked.has(page)) void fetchPage(page, false);
  };
  /** Ask for the list; one that is on its way is awaited, unless something else is wanted by now. */
  const reload = async (): Promise<void> => {
    const wanted = JSON.stringify(request.peek());
    if (wanted === key && isBusy) {
      isWantedAgain = true;
      return;
    }
    if (wanted !== key) version++;
    key = wanted;
    isBusy = true;
    asked.clear();
    const mine = version;
    await fetchPage(0, true);
    if (mine !== version) return;
    isBusy = false;
    want(...lastWanted);
    if (isWantedAgain) setTimeout(() => void reload(), AGAIN_MS);
    isWantedAgain = false;
  };
  let before = "";
  // By its text: the request is made anew whenever rows come, and an answer must not ask for itself again.
  const requested = computed(() => JSON.stringify(request.value));
  effect(() => {
    const { isOn, query } = JSON.parse(requested.value) as ListRequest;
    if (!isOn) return undefined;
    if (requested.value === key && shownFor === version) return undefined;
    // While an answer is on its way, what is typed is asked when typing rests; anything else at once.
    const isTyped = before !== "" && before !== query;
    before = query;
    lastWanted = [0, PAGE_ROWS];
    const timer = setTimeout(() => void reload(), isTyped && isBusy ? TYPING_MS : 0);
    return () => clearTimeout(timer);
  });
  const seed = (list: RunList, answered: ListRequest): void => {
    if (total.peek() !== null) return;
    const next = new Array<string | undefined>(list.total);
    list.rows.forEach(({ id }, index) => (next[index] = id));
    key = JSON.stringify(answered);
    before = answered.query;
    shownFor = version;
    asked.add(0);
    ids.value = next;
    total.value = list.total;
    pending.value = list.pending ?? 0;
  };
  return { total, ids, groups, problem, pending, want, seed, reload: () => void reload() };
}

/** A field of the query language, such as `config.optimizer.lr` or `summary."eval loss".last`. */
export function fieldOf(root: "config" | "summary" | "best", name: string, ...more: readonly string[]): string {
  const parts = root === "config" ? name.split(".") : [name];
  return [root, ...parts.map((part) => (/^[\w/@:-]+$/.test(part) ? part : quoted(part))), ...more].join(".");
}
