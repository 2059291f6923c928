/** The list of runs, window by window: the source filters, orders and groups, and sends the rows that are wanted. */

import { batch, computed, effect, signal } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";

import { SourceError } from "../source/source.ts";
import type { RunsRequest, Source } from "../source/source.ts";
import { quoted } from "../ui/filter.ts";
import type { RunGroup, RunList } from "../wire.ts";
import { HEADLINES } from "./run-rows.ts";

export type ListRequest = Required<Pick<RunsRequest, "query" | "choice">> &
  Pick<RunsRequest, "order" | "group">;

export interface ListAnswer {
  readonly request: ListRequest;
  /** How many runs fit. */
  readonly total: number;
  readonly groups: readonly RunGroup[];
  /** Of how many runs only identity and status are known: a filter could not judge them. */
  readonly unsummarised: number;
}

/** Lists up to here come with all rows; of a longer one the page has the rows in view, and at most this many for a picture of all. */
export const MOST_ROWS = 2000;
const PAGE_ROWS = 100;
const PAGES_AT_ONCE = 5;
const TYPING_MS = 150;
/** The rows beyond the first page come when typing has paused. */
const REST_MS = 300;
const AGAIN_MS = 1000;

export function createRunPages(
  ask: Source["runs"],
  request: ReadonlySignal<ListRequest>,
  onList: (list: RunList) => void,
) {
  /** What is shown: the last answer stays until the next one comes. Null until the first. */
  const answer = signal<ListAnswer | null>(null);
  /** In the list's order; undefined where a row has not come yet. */
  const ids = signal<readonly (string | undefined)[]>([]);
  /** Why the last request has no answer. */
  const problem = signal<SourceError | null>(null);
  const settled = signal("");
  const asked = new Set<number>();
  let current = request.peek();
  let key = "";
  let version = 0;
  /** The version whose rows are shown. */
  let shownFor = -1;
  let isBusy = false;
  let isWantedAgain = false;
  let numHolds = 0;
  let lastWanted: readonly [number, number] = [0, PAGE_ROWS];
  let rest: ReturnType<typeof setTimeout> | undefined;

  const fetchPages = async (page: number, count: number): Promise<void> => {
    const mine = version;
    const [offset, limit, isFirst] = [page * PAGE_ROWS, count * PAGE_ROWS, page === 0];
    const { group, ...ungrouped } = current;
    for (let index = page; index < page + count; index++) asked.add(index);
    try {
      const list = await ask({
        ...(isFirst ? { ...current, withProjects: true } : ungrouped),
        offset,
        limit,
        withConfig: true,
        summaries: HEADLINES,
      });
      if (mine !== version || numHolds > 0) return;
      batch(() => {
        onList(list);
        // A list that was asked for again keeps the rows that are there until newer ones come.
        const fresh = new Set(list.rows.map(({ id }) => id));
        const before = shownFor === mine ? ids.peek() : [];
        // The first page says how long the list is: a later one may be from a moment before.
        const total = isFirst ? list.total : before.length;
        const next = Array.from({ length: total }, (_, index) =>
          fresh.has(before[index] ?? "") ? undefined : before[index],
        );
        list.rows
          .slice(0, Math.max(0, total - offset))
          .forEach(({ id }, index) => (next[offset + index] = id));
        shownFor = mine;
        ids.value = next;
        if (isFirst)
          answer.value = {
            request: current,
            total,
            groups: list.groups ?? [],
            unsummarised: list.unsummarised ?? 0,
          };
        problem.value = null;
        settled.value = key;
      });
    } catch (error) {
      if (mine !== version) return;
      for (let index = page; index < page + count; index++) asked.delete(index);
      problem.value = error instanceof SourceError ? error : new SourceError(String(error), 0);
      settled.value = key;
    }
  };
  /** Ask for the rows from an index up to another, unless they are there or on their way. */
  const want = (start: number, stop: number): void => {
    lastWanted = [start, stop];
    if (shownFor !== version) return;
    const end = Math.min(stop, answer.peek()?.total ?? 0);
    const isMissing = (page: number): boolean => page * PAGE_ROWS < end && !asked.has(page);
    for (let page = Math.floor(start / PAGE_ROWS); page * PAGE_ROWS < end; page++) {
      let count = 0;
      while (count < PAGES_AT_ONCE && isMissing(page + count)) count++;
      if (count > 0) void fetchPages(page, count);
    }
  };
  /** Ask for the list; one that is on its way is awaited, unless something else is wanted by now. */
  const reload = async (): Promise<void> => {
    if (numHolds > 0) return;
    if (requested.peek() === key && isBusy) {
      isWantedAgain = true;
      return;
    }
    if (requested.peek() !== key) version++;
    key = requested.peek();
    current = request.peek();
    isBusy = true;
    asked.clear();
    clearTimeout(rest);
    const mine = version;
    await fetchPages(0, 1);
    if (mine !== version) return;
    isBusy = false;
    want(...lastWanted);
    if ((answer.peek()?.total ?? 0) <= MOST_ROWS)
      rest = setTimeout(() => want(0, MOST_ROWS), REST_MS);
    if (isWantedAgain) setTimeout(() => void reload(), AGAIN_MS);
    isWantedAgain = false;
  };
  // By its text: the request is made anew whenever rows come, and an answer must not ask for itself again.
  const requested = computed(() => JSON.stringify(request.value));
  effect(() => {
    if (requested.value === key) return undefined;
    lastWanted = [0, PAGE_ROWS];
    // While an answer is on its way, what is typed is asked when typing rests.
    const timer = setTimeout(() => void reload(), isBusy ? TYPING_MS : 0);
    return () => clearTimeout(timer);
  });
  /** Take runs out that were deleted. */
  const forget = (gone: ReadonlySet<string>): void => {
    const kept = ids.peek().filter((id) => id === undefined || !gone.has(id));
    if (answer.peek() !== null) answer.value = { ...answer.peek()!, total: kept.length };
    ids.value = kept;
  };
  /** Leave the list as it is until the work is done, then ask for it again: of runs that are being deleted, those that come next may be gone already. */
  const hold = async (work: () => Promise<void>): Promise<void> => {
    numHolds++;
    try {
      await work();
    } finally {
      if (--numHolds === 0) void reload();
    }
  };
  return {
    answer,
    ids,
    problem,
    isSettled: computed(() => settled.value === requested.value),
    want,
    forget,
    hold,
    reload: () => void reload(),
  };
}

/** A field of the query language, such as `config.optimizer.lr` or `summary."eval loss".last`. */
export function fieldOf(
  root: "config" | "summary" | "best",
  name: string,
  ...more: readonly string[]
): string {
  const parts = root === "config" ? name.split(".") : [name];
  return [
    root,
    ...parts.map((part) => (/^[\w/@:-]+$/.test(part) ? part : quoted(part))),
    ...more,
  ].join(".");
}
