/** The list of runs: what there is, what fits the filter, what is in the charts, and in which colour. */

import { batch, computed, effect, signal } from "@preact/signals";
import type { ReadonlySignal, Signal } from "@preact/signals";

import { assignSlots } from "../chart/index.ts";
import { SourceError } from "../source/source.ts";
import type { RunsRequest, Update, Source } from "../source/source.ts";
import { compileFilter, patternQuery, quoted, wordsQuery } from "../ui/filter.ts";
import { sharedStart } from "../ui/middle-text.tsx";
import type { RunList, RunRow } from "../wire.ts";
import { chosenSlots, coloringBy } from "./colors.ts";
import type { Coloring } from "./colors.ts";
import { flatConfig } from "./config.ts";
import { groupBy } from "./group-by.ts";
import { byKeys, groupKeysOf, groupTitle, serverTitle } from "./group-keys.ts";
import { chosenProjects } from "./projects.ts";
import { createQueriedRuns, UNREAD_MS } from "./queried-runs.ts";
import { createRunPages, fieldOf } from "./run-pages.ts";
import type { ListRequest } from "./run-pages.ts";
import { HEADLINES, headlinesOf, nonfiniteWord, ordered, projectsQuery, searchTextsOf, serverOrder } from "./run-rows.ts";
import type { View } from "./view.ts";

export interface RunGroup {
  /** Values of the keys; null when runs are not grouped. */
  readonly title: string | null;
  readonly rows: readonly RunRow[];
}

/** A line of the list; a run's row is undefined until it has come. */
export type RunLine =
  | { readonly kind: "run"; readonly row: RunRow | undefined; readonly index: number }
  | { readonly kind: "group"; readonly title: string; readonly count: number; readonly rows: readonly RunRow[] | null };

/** What the address names and the store does not have. */
export interface Missing {
  readonly kind: "project" | "run";
  readonly name: string;
}

export interface Runs {
  /** False until the first answer. */
  readonly isLoaded: ReadonlySignal<boolean>;
  /** Whether all rows of the first load have come, or as many as this page holds. */
  readonly isComplete: ReadonlySignal<boolean>;
  /** Why there is no list. */
  readonly problem: ReadonlySignal<string | null>;
  /** Every run, or those that this page has rows of where there are thousands. */
  readonly all: ReadonlySignal<readonly RunRow[]>;
  /** How many runs there are, whatever the filter. */
  readonly numAll: ReadonlySignal<number>;
  readonly projects: ReadonlySignal<readonly string[]>;
  /** Those of the project that fit the filter, in order; where there are thousands, the ones whose rows are here. */
  readonly fitting: ReadonlySignal<readonly RunRow[]>;
  readonly numFitting: ReadonlySignal<number>;
  readonly numHidden: ReadonlySignal<number>;
  /** False while a filter is being applied by the server. */
  readonly isSettled: ReadonlySignal<boolean>;
  /** How many runs the server still reads: a filter could not judge them yet. */
  readonly numUnread: ReadonlySignal<number>;
  /** What is wrong with the filter. */
  readonly filterProblem: ReadonlySignal<string | null>;
  readonly missing: ReadonlySignal<Missing | null>;
  /** The config keys that runs are grouped by. */
  readonly groupKeys: ReadonlySignal<readonly string[]>;
  readonly groups: ReadonlySignal<readonly RunGroup[]>;
  /** How many lines the list has. */
  readonly numLines: ReadonlySignal<number>;
  lineAt(index: number): RunLine | undefined;
  /** Have the rows of these lines come. */
  wantLines(start: number, stop: number): void;
  /** Have as many rows come as a table or a picture of all can use. */
  wantMany(): void;
  /** Configuration keys that any run has, in dotted form. */
  readonly configKeys: ReadonlySignal<readonly string[]>;
  /** In the charts. */
  readonly shown: ReadonlySignal<readonly RunRow[]>;
  readonly shownIds: ReadonlySignal<ReadonlySet<string>>;
  /** Drawn in the charts: those shown and, ticked or not, the one that was chosen. */
  readonly drawn: ReadonlySignal<readonly RunRow[]>;
  /** The run that panels of one run show. */
  readonly focus: ReadonlySignal<RunRow | null>;
  readonly baseline: ReadonlySignal<RunRow | null>;
  row(id: string): RunRow | undefined;
  /** Palette slot of a run in the charts. */
  slot(id: string): number;
  /** How many characters at the start of their names all listed runs share. */
  readonly numShared: ReadonlySignal<number>;
  /** How runs in the charts are coloured by a value of their config; null where each has a colour of its own. */
  readonly coloring: ReadonlySignal<Coloring | null>;
  /** What the run is called here: its name, told apart from others of the same name. */
  label(id: string): string;
  toggle(id: string): void;
  soloOn(id: string): void;
  /** Show these in the charts; returns how many of them, because charts have a limit. */
  showOnly(ids: readonly string[]): number;
  /** The runs of the list from one to another, both included; empty where one of them is not in the list. */
  idsBetween(one: string, other: string): Promise<readonly string[]>;
  /** The query that selects the runs of the list, for the server. */
  listQuery(): string;
  /** A condition of the table's columns, where the server chooses the runs; empty for none. */
  readonly columnQuery: Signal<string>;
  /** What selects and orders the runs of which there are too many for this page; null where it has all. */
  readonly bigList: ReadonlySignal<{ readonly query: string; readonly order: string } | null>;
  reload(): void;
  /** The stream of updates has begun: what came after the list is asked for. */
  joined(): void;
  /** Take runs out of the list that were deleted. */
  forget(ids: ReadonlySet<string>): void;
  apply(update: Update): void;
  /** Put a newer value of the headline metric into a row. */
  setHeadline(id: string, role: string, last: number): void;
}

/** With fewer than this, all runs are in the charts at first. */
const SHOWN_AT_FIRST = 8;
/** Charts stay readable and quick up to here; who asks for more is told. */
export const MOST_SHOWN = 100;
/** Of more runs than this the page has only the rows in view, and the server filters. */
export const MOST_ROWS = 2000;
const FIRST_ROWS = 100;
const NEWEST_FIRST = "-created";
const BAD_REQUEST = 400;
const PAGE_ROWS = 500;
const IDS_AT_ONCE = 25;
const RELOAD_MS = 5000;
/** When charts have been drawn for the first time: what happened before the stream began is little and rare. */
const JOINED_MS = 1500;

/** `onList` is told of rows that the server was asked for, before they replace those that are known. */
export function createRuns(source: Source, view: View, onList: (rows: Iterable<RunRow>, before: (id: string) => RunRow | undefined) => void = () => undefined): Runs {
  const rows = signal<ReadonlyMap<string, RunRow>>(new Map());
  const isLoaded = signal(false);
  const isComplete = signal(false);
  const problem = signal<string | null>(null);
  /** Whether this page has every run; otherwise `pages` has the list. */
  const isWhole = signal(true);
  const numStored = signal(0);
  const serverProjects = signal<readonly string[] | null>(null);
  const unknown = signal<ReadonlySet<string>>(new Set());
  /** How many runs fit, as the first answer says while the rest of them is on its way. */
  const announced = signal<{ readonly query: string; readonly total: number } | null>(null);
  let numLoads = 0;
  let reloading: ReturnType<typeof setTimeout> | undefined;

  const load = async (): Promise<void> => {
    if (!isWhole.peek()) {
      pages.reload();
      return;
    }
    const mine = ++numLoads;
    const found = new Map<string, RunRow>();
    let isPending = false;
    try {
      // Asked for as it is shown: where there are thousands of runs, the first answer is the beginning of the list.
      const start = source.supportsQueries && view.groupBy.peek() === null ? request.peek() : null;
      for (let offset = 0, total = 1, isFirst = true; offset < total; isFirst = false) {
        const chosen: RunsRequest & { readonly order: string } = isFirst && start !== null ? { query: start.query, order: start.order === "" ? NEWEST_FIRST : start.order, withProjects: true } : { order: NEWEST_FIRST };
        const ask = (how: RunsRequest): Promise<RunList> => source.runs({ ...how, offset, limit: isFirst ? FIRST_ROWS : PAGE_ROWS, withConfig: true, summaries: HEADLINES });
        let isWrong = false;
        // With a mistake in the query the list comes whole; the filter says what is wrong.
        const list = await ask(chosen).catch((error: unknown) => {
          isWrong = error instanceof SourceError && error.status === BAD_REQUEST && chosen.query !== undefined;
          if (!isWrong) throw error;
          return ask({ order: chosen.order, withProjects: true });
        });
        if (mine !== numLoads) return;
        for (const row of list.rows) found.set(row.id, row);
        const stored = list.stored ?? list.total;
        isPending = (list.pending ?? 0) > 0;
        if (isFirst && source.supportsQueries && stored > MOST_ROWS) {
          batch(() => {
            merge(list.rows);
            if (start !== null && !isWrong) pages.seed(list, { ...start, isOn: true });
            isWhole.value = false;
            takeList(list);
            isLoaded.value = true;
          });
          break;
        }
        onList(list.rows, (id) => rows.peek().get(id));
        numStored.value = stored;
        if (isFirst && start !== null && !isWrong) announced.value = { query: start.query, total: list.total };
        // An answer that leaves runs out, or has another order, is only what comes first.
        const isPart = list.total < stored || (isFirst && chosen.order !== NEWEST_FIRST);
        total = isPart ? stored : list.rows.length === 0 ? 0 : list.total;
        offset += isPart ? 0 : list.rows.length;
        if (!isLoaded.value) rows.value = new Map(found);
      }
      if (isWhole.peek()) rows.value = found;
      problem.value = null;
    } catch (error) {
      problem.value = error instanceof Error ? error.message : String(error);
    }
    isLoaded.value = true;
    isComplete.value = true;
    if (isPending) reloadSoon();
  };
  /** What an answer says of all runs, where the server has the list. */
  const takeList = (list: RunList): void => {
    onList(list.rows, (id) => rows.peek().get(id));
    if (list.stored != null) numStored.value = list.stored;
    if (list.projects != null) serverProjects.value = list.projects;
    if ((list.pending ?? 0) > 0) reloadSoon(asked.peek() + columnQuery.peek() === "" ? RELOAD_MS : UNREAD_MS);
  };
  const reloadSoon = (ms = RELOAD_MS): void => {
    reloading ??= setTimeout(() => {
      reloading = undefined;
      void load();
    }, ms);
  };

  const all = computed(() => [...rows.value.values()]);
  const projects = computed(() => (isWhole.value ? null : serverProjects.value) ?? [...new Set(all.value.map(({ project }) => project))].sort());
  const ofProject = computed(() => {
    const chosen = chosenProjects(view.project.value, projects.value);
    return chosen === null ? all.value : all.value.filter((row) => chosen.includes(row.project));
  });
  /** What the server is asked to choose runs by; empty where this page chooses. */
  const asked = computed(() => {
    const text = view.filter.value.trim();
    if (view.filterMode.value === "query") return text;
    return view.filterMode.value === "regex" && text !== "" && source.supportsQueries ? patternQuery(text) : "";
  });
  const showsHidden = view.text("hidden");
  const columnQuery = signal("");
  const listQuery = (): string => {
    const words = asked.value === "" && view.filterMode.value === "words" ? wordsQuery(view.filter.value) : asked.value;
    return [
      projectsQuery(chosenProjects(view.project.value, projects.value)),
      showsHidden.value === "1" ? "" : "not hidden",
      words === "" ? "" : `(${words})`,
      isWhole.value ? "" : columnQuery.value,
    ].filter((part) => part !== "").join(" and ");
  };
  const searchTexts = computed(() => all.value.map((row) => searchTextsOf(row).join(" ")).join("\n"));
  const queried = createQueriedRuns(source, computed(() => (isWhole.value ? asked.value : "")), computed(() => (view.filterMode.value === "query" ? rows.value.size : searchTexts.value)));

  const groupKeys = computed(() => groupKeysOf(view.groupBy.value, ofProject.value));
  const request = computed((): ListRequest => {
    const fields = groupKeys.value.map((key) => fieldOf("config", key));
    return { isOn: !isWhole.value, query: listQuery(), order: fields.length === 0 && view.order.value === NEWEST_FIRST ? "" : [...fields, serverOrder(view.order.value)].join(","), group: fields.join(",") };
  });
  const pages = createRunPages(source, request, HEADLINES, (list) => {
    takeList(list);
    merge(list.rows, true);
  });

  const filtered = computed(() => {
    const { ids } = queried.value;
    const isAsked = asked.value !== "" || view.filterMode.value === "query";
    const matches = compileFilter(view.filter.value);
    return ofProject.value.filter((row) => (isAsked ? ids === null || ids.has(row.id) : matches(searchTextsOf(row).join(" "))));
  });
  const fitting = computed(() => {
    if (!isWhole.value) return pages.ids.value.map((id) => (id === undefined ? undefined : rows.value.get(id))).filter((row) => row !== undefined);
    const visible = showsHidden.value === "1" ? filtered.value : filtered.value.filter(({ hidden }) => !hidden);
    const inOrder = ordered(visible, view.order.value);
    return groupKeys.value.length === 0 ? inOrder : inOrder.toSorted(byKeys(groupKeys.value));
  });
  const numFitting = computed(() => {
    if (!isWhole.value) return pages.total.value ?? 0;
    const isComing = !isComplete.value && announced.value?.query === listQuery();
    return Math.max(fitting.value.length, isComing ? announced.value!.total : 0);
  });
  const numHidden = computed(() => (isWhole.value ? filtered.value.filter(({ hidden }) => hidden).length : 0));
  const filterProblem = computed(() => {
    if (asked.value === "") return null;
    return isWhole.value ? queried.value.problem : pages.problem.value;
  });
  const isSettled = computed(() => (isWhole.value ? queried.value.query === asked.value : pages.total.value !== null));
  const numUnread = computed(() => (isWhole.value ? queried.value.pending : pages.pending.value));
  const configKeys = computed(() => {
    const keys = new Set<string>();
    for (const row of ofProject.value) for (const [key] of flatConfig(row.config ?? {})) keys.add(key);
    return [...keys].sort();
  });
  const groups = computed((): readonly RunGroup[] => {
    const keys = groupKeys.value;
    if (keys.length === 0) return [{ title: null, rows: fitting.value }];
    return [...groupBy(fitting.value, (row) => groupTitle(row, keys))].map(([title, members]) => ({ title, rows: members }));
  });
  /** Where each group begins among the lines: its heading, then its runs. */
  const headings = computed((): readonly { readonly at: number; readonly title: string; readonly count: number; readonly rows: readonly RunRow[] | null }[] => {
    if (groupKeys.value.length === 0) return [];
    let at = 0;
    const found = isWhole.value
      ? groups.value.map(({ title, rows: members }) => ({ title: title ?? "", count: members.length, rows: members }))
      : (pages.groups.value ?? []).map(({ values, count }) => ({ title: serverTitle(groupKeys.value, values), count, rows: null }));
    return found.map((one) => {
      const heading = { ...one, at };
      at += one.count + 1;
      return heading;
    });
  });
  const lineAt = (index: number): RunLine | undefined => {
    const known = headings.value;
    let low = 0;
    for (let high = known.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (known[middle]!.at <= index) low = middle + 1;
      else high = middle;
    }
    const heading = known[low - 1];
    if (heading?.at === index) return { kind: "group", title: heading.title, count: heading.count, rows: heading.rows };
    const place = index - low;
    if (isWhole.value) return { kind: "run", row: fitting.value[place], index: place };
    const id = pages.ids.value[place];
    return { kind: "run", row: id === undefined ? undefined : rows.value.get(id), index: place };
  };

  const shown = computed((): readonly RunRow[] => {
    const solo = view.solo.value === null ? undefined : rows.value.get(view.solo.value);
    if (solo !== undefined) return [solo];
    const chosen = view.shown.value;
    if (chosen === null) return fitting.value.filter(({ hidden, problem: isBad }) => !hidden && isBad === null).slice(0, SHOWN_AT_FIRST);
    return chosen.map((id) => rows.value.get(id)).filter((row) => row !== undefined).slice(0, MOST_SHOWN);
  });
  const drawn = computed((): readonly RunRow[] => {
    const chosen = view.focus.value === null ? undefined : rows.value.get(view.focus.value);
    return chosen === undefined || shown.value.includes(chosen) ? shown.value : [...shown.value, chosen];
  });
  const shownIds = computed(() => new Set(shown.value.map(({ id }) => id)));
  const focus = computed((): RunRow | null => {
    const chosen = view.focus.value === null ? undefined : rows.value.get(view.focus.value);
    if (chosen !== undefined) return chosen;
    return shown.value.find(({ status }) => status.state === "running") ?? shown.value[0] ?? fitting.value[0] ?? null;
  });
  // Runs that the address names and whose rows are not among those in view.
  effect(() => {
    if (isWhole.value || !isLoaded.value) return;
    const named = [view.focus.value, view.solo.value, view.baseline.value, ...(view.shown.value ?? [])].filter((id) => id !== null);
    const wanted = [...new Set(named)].filter((id) => !rows.peek().has(id) && !unknown.peek().has(id)).slice(0, MOST_SHOWN);
    if (wanted.length === 0) return;
    // A query has at most 2,000 characters.
    for (let at = 0; at < wanted.length; at += IDS_AT_ONCE) {
      const ids = wanted.slice(at, at + IDS_AT_ONCE);
      void source.runs({ query: `id in [${ids.map(quoted).join(", ")}]`, limit: ids.length, withConfig: true, summaries: HEADLINES }).then((list) => {
        const known = new Set(list.rows.map(({ id }) => id));
        unknown.value = new Set([...unknown.peek(), ...ids.filter((id) => !known.has(id))]);
        merge(list.rows, true);
      }, () => undefined);
    }
  });
  const missing = computed((): Missing | null => {
    if (!isLoaded.value || problem.value !== null) return null;
    const [project, run] = [view.project.value, view.focus.value];
    const unknownProject = chosenProjects(project, projects.value)?.find((name) => !projects.value.includes(name));
    if (unknownProject !== undefined && numStored.value > 0) return { kind: "project", name: unknownProject };
    if (run === null || rows.value.has(run)) return null;
    return isWhole.value || unknown.value.has(run) ? { kind: "run", name: run } : null;
  });
  const slots = signal<ReadonlyMap<string, number>>(new Map());
  effect(() => {
    const focused = focus.value;
    const ids = shown.value.map(({ id }) => id);
    const wanted = focused === null || ids.includes(focused.id) ? ids : [...ids, focused.id];
    slots.value = assignSlots(wanted, slots.peek());
  });
  // Where a group is drawn as one line, its members have the line's colour.
  const groupSlots = computed(() => {
    const drawn = view.groupBy.value !== null && view.spread.value !== "none" ? groups.value : [];
    return new Map(drawn.flatMap(({ rows: members }, index) => members.map(({ id }) => [id, index] as const)));
  });
  const chosen = computed(() => chosenSlots(view.colors.value));
  const coloring = computed(() => (view.colorBy.value === null ? null : coloringBy(drawn.value, view.colorBy.value)));
  const namesakes = computed(() => groupBy(all.value, ({ name }) => name));

  /** Put newer rows in place; where there are thousands, those that nobody has asked for stay away. */
  const merge = (changed: readonly RunRow[], isAsked = true): void => {
    const next = new Map(rows.value);
    for (const row of changed) {
      const before = next.get(row.id);
      if (before === undefined && !isAsked && !isWhole.peek()) continue;
      next.set(row.id, { ...row, config: Object.keys(row.config).length > 0 ? row.config : (before?.config ?? {}), summaries: { ...before?.summaries, ...row.summaries } });
    }
    rows.value = next;
  };
  const addDetails = (id: string): void => {
    void source.get("run", id).then((detail) => merge([{ ...detail.row, config: detail.config, summaries: headlinesOf(detail) }]), () => reloadSoon());
  };
  const forget = (ids: ReadonlySet<string>): void => {
    const next = new Map(rows.value);
    for (const id of ids) next.delete(id);
    rows.value = next;
  };
  void load();

  return {
    isLoaded, isComplete, problem, all, projects, fitting, numFitting, numHidden, numUnread, isSettled, filterProblem, missing, groupKeys, groups, configKeys, shown, shownIds, drawn, focus, listQuery, lineAt, forget, columnQuery,
    bigList: computed(() => (request.value.isOn ? { query: request.value.query, order: request.value.order } : null)),
    numAll: computed(() => (isWhole.value ? all.value.length : numStored.value)),
    numShared: computed(() => sharedStart(fitting.value.map(({ name }) => name))),
    numLines: computed(() => numFitting.value + headings.value.length),
    wantLines(start, stop) {
      if (isWhole.peek()) return;
      const before = headings.peek().filter(({ at }) => at < start).length;
      pages.want(Math.max(0, start - before - 1), stop);
    },
    async idsBetween(one, other) {
      const listed = isWhole.peek() ? fitting.peek().map(({ id }) => id) : pages.ids.peek();
      const ends = [listed.indexOf(one), listed.indexOf(other)];
      const [start, stop] = [Math.min(...ends), Math.max(...ends) + 1];
      if (start < 0) return [];
      const known = listed.slice(start, stop);
      if (known.every((id) => id !== undefined)) return known;
      const found: string[] = [];
      const { query, order } = request.peek();
      while (found.length < stop - start) {
        const { rows: more } = await source.runs({ query, ...(order === "" ? {} : { order }), offset: start + found.length, limit: Math.min(PAGE_ROWS, stop - start - found.length) });
        if (more.length === 0) break;
        found.push(...more.map(({ id }) => id));
      }
      return found;
    },
    wantMany: () => pages.want(0, MOST_ROWS),
    baseline: computed(() => (view.baseline.value === null ? null : (rows.value.get(view.baseline.value) ?? null))),
    row: (id) => rows.value.get(id),
    slot: (id) => chosen.value.get(id) ?? groupSlots.value.get(id) ?? coloring.value?.slots.get(id) ?? slots.value.get(id) ?? 0,
    coloring,
    label(id) {
      const row = rows.value.get(id);
      if (row === undefined) return id;
      const others = namesakes.value.get(row.name)?.length ?? 1;
      return others > 1 ? `${row.name} · ${(chosenProjects(view.project.value, projects.value)?.length ?? 2) > 1 ? `${row.project} ` : ""}${row.id.slice(0, 6)}` : row.name;
    },
    toggle(id) {
      view.isCrowd.value = false;
      const ids = shown.value.map((row) => row.id);
      view.solo.value = null;
      view.shown.value = ids.includes(id) ? ids.filter((one) => one !== id) : [...ids, id];
    },
    soloOn(id) {
      view.isCrowd.value = false;
      const isOn = view.solo.value !== id;
      view.solo.value = isOn ? id : null;
      // Alone means without another that was chosen before.
      if (isOn) view.focus.value = id;
    },
    showOnly(ids) {
      view.isCrowd.value = false;
      view.solo.value = null;
      view.shown.value = ids.slice(0, MOST_SHOWN);
      return view.shown.value.length;
    },
    reload: () => void load(),
    joined: () => reloadSoon(JOINED_MS),
    apply(update) {
      if (update.type === "status") merge([update.row], false);
      if (update.type !== "runs") return;
      if (update.all) {
        if (isWhole.peek()) void load();
        else reloadSoon();
        return;
      }
      const isBig = !isWhole.peek();
      merge([...update.added, ...update.changed], false);
      if (update.removed.length > 0) forget(new Set(update.removed));
      if (isBig) {
        if (update.added.length + update.removed.length > 0) reloadSoon();
      } else {
        numStored.value += update.added.length - update.removed.length;
        for (const { id } of update.added) addDetails(id);
      }
    },
    setHeadline(id, role, last) {
      const row = rows.value.get(id);
      const before = row?.summaries[role];
      if (row === undefined || before === undefined || before.last === last) return;
      merge([{ ...row, summaries: { [role]: { ...before, last: Number.isFinite(last) ? last : null, last_nonfinite: nonfiniteWord(last) } } }]);
    },
  };
}
