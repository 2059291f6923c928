/** The list of runs: what there is, what fits the filter, what is in the charts, and in which colour. */

import { batch, computed, effect, signal } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";

import { assignSlots, NUM_BRIGHT } from "../chart/index.ts";
import { SourceError } from "../source/source.ts";
import type { Update, Source } from "../source/source.ts";
import { isQuery, quoted, wordsQuery } from "../ui/filter.ts";
import type { RunList, RunRow } from "../wire.ts";
import { chosenSlots, coloringBy, coloringOf } from "./colors.ts";
import { flatConfig } from "./config.ts";
import { groupBy } from "./group-by.ts";
import { groupKeysOf, valuesTitle } from "./group-keys.ts";
import { chosenProjects } from "./projects.ts";
import { createRunPages, fieldOf, MOST_ROWS } from "./run-pages.ts";
import type { ListRequest } from "./run-pages.ts";
import { HEADLINES, nonfiniteWord, projectsQuery, serverOrder } from "./run-rows.ts";
import type { View } from "./view.ts";

export interface RunGroup {
  /** Values of the keys; null when runs are not grouped. */
  readonly title: string | null;
  readonly count: number;
  /** Those that have come. */
  readonly rows: readonly RunRow[];
}

/** A line of the list; a run's row is undefined until it has come. */
export type RunLine =
  | { readonly kind: "run"; readonly row: RunRow | undefined; readonly index: number }
  | {
      readonly kind: "group";
      readonly title: string;
      readonly count: number;
      readonly rows: readonly RunRow[] | null;
    };

/** What the address names and the store does not have. */
export interface Missing {
  readonly kind: "project" | "run";
  readonly name: string;
}

/** With fewer than this, all runs are in the charts at first. */
const SHOWN_AT_FIRST = 8;
/** Charts stay readable and quick up to here; who asks for more is told. */
export const MOST_SHOWN = 100;
const NEWEST_FIRST = "-created";
/** Orders in which a run that goes on stays where it is. */
const FIXED_ORDERS: ReadonlySet<string> = new Set([NEWEST_FIRST, "created", "name"]);
const BAD_REQUEST = 400;
const IDS_AT_ONCE = 25;
/** How often a list is asked for again at most: one that this page has all rows of, and a longer one. */
const RELOAD_MS = 1000;
const LONG_RELOAD_MS = 5000;
/** When charts have been drawn for the first time: what happened before the stream began is little and rare. */
const JOINED_MS = 1500;

export type Runs = ReturnType<typeof createRuns>;

/** `onList` is told of rows that the server was asked for, before they replace those that are known. `frozen` are the only runs of a report. */
export function createRuns(
  source: Source,
  view: View,
  onList: (rows: Iterable<RunRow>, before: (id: string) => RunRow | undefined) => void = () =>
    undefined,
  frozen: ReadonlySignal<readonly string[] | null> = signal(null),
) {
  const rows = signal<ReadonlyMap<string, RunRow>>(new Map());
  const numStored = signal(0);
  const projects = signal<readonly string[]>([]);
  const unknown = signal<ReadonlySet<string>>(new Set());
  /** A mistake in the query of the address: the list comes without it. */
  const refused = signal<{ readonly filter: string; readonly problem: string } | null>(null);
  const isLong = computed(() => numStored.value > MOST_ROWS);
  let reloading: ReturnType<typeof setTimeout> | undefined;
  let reloadsAt = Infinity;
  const reloadSoon = (ms: number): void => {
    const at = performance.now() + ms;
    if (at >= reloadsAt) return;
    reloadsAt = at;
    clearTimeout(reloading);
    reloading = setTimeout(() => {
      reloadsAt = Infinity;
      pages.reload();
    }, ms);
  };

  /** The runs that this page has rows of. */
  const all = computed(() => [...rows.value.values()]);
  const ofProject = computed(() => {
    const chosen = chosenProjects(view.project.value, projects.value);
    return chosen === null ? all.value : all.value.filter((row) => chosen.includes(row.project));
  });
  /** The filter as a query; empty for none. */
  const asked = computed(() => {
    const text = view.filter.value.trim();
    return isQuery(text) ? text : wordsQuery(text);
  });
  const isRefused = computed(() => refused.value?.filter === asked.value);
  const showsHidden = view.text("hidden");
  /** The query that selects the runs of the list, for the server. */
  const listQuery = (): string =>
    [
      projectsQuery(chosenProjects(view.project.value, projects.value)),
      showsHidden.value === "1" ? "" : "not hidden",
      asked.value === "" || isRefused.value ? "" : `(${asked.value})`,
      frozen.value === null ? "" : `id in [${frozen.value.map(quoted).join(", ")}]`,
    ]
      .filter((part) => part !== "")
      .join(" and ");
  /** The query that selects the runs of groups, quantiles and rankings: those of the list without the unchecked ones. */
  const sweepQuery = (): string =>
    [
      listQuery(),
      view.without.value.length === 0
        ? ""
        : `id not in [${view.without.value.map(quoted).join(", ")}]`,
    ]
      .filter((part) => part !== "")
      .join(" and ");
  /** Whether what a run has become may move it in the list, or out of it. */
  const isMoving = computed(() => asked.value !== "" || !FIXED_ORDERS.has(view.order.value));
  /** The config keys that runs are grouped by. */
  const groupKeys = computed(() => groupKeysOf(view.groupBy.value, ofProject.value));
  const request = computed((): ListRequest => {
    const fields = groupKeys.value.map((key) => fieldOf("config", key));
    const words = isRefused.value ? "" : isQuery(view.filter.value) ? null : view.filter.value;
    return {
      query: listQuery(),
      ...(fields.length === 0 && view.order.value === NEWEST_FIRST
        ? {}
        : { order: [...fields, serverOrder(view.order.value)].join(",") }),
      ...(fields.length === 0 ? {} : { group: fields.join(",") }),
      choice: {
        ...(frozen.value === null ? {} : { ids: frozen.value }),
        projects: chosenProjects(view.project.value, projects.value),
        withHidden: showsHidden.value === "1",
        words,
        order: view.order.value,
        groupKeys: groupKeys.value,
      },
    };
  });
  /** Of a query that the server refuses, the message is about what the person wrote, not about all that selects the list. */
  const ask: Source["runs"] = (wanted) =>
    source.runs(wanted).catch(async (error: unknown) => {
      if (error instanceof SourceError && error.status === BAD_REQUEST && asked.peek() !== "")
        await source.runs({ ...wanted, query: asked.peek(), limit: 1 });
      throw error;
    });
  /** Each list reads some of the runs that carry no summary: it is asked for again while that helps. */
  let numLeft = Infinity;
  const pages = createRunPages(ask, request, (list: RunList) => {
    updated.clear();
    const { unsummarised = 0 } = list;
    if (unsummarised > 0 && unsummarised < numLeft) reloadSoon(RELOAD_MS);
    numLeft = unsummarised === 0 ? Infinity : unsummarised;
    onList(list.rows, (id) => rows.peek().get(id));
    numStored.value = list.stored ?? numStored.peek();
    projects.value = list.projects ?? projects.peek();
    merge(list.rows);
  });
  effect(() => {
    const found = pages.problem.value;
    if (found?.status === BAD_REQUEST && pages.answer.peek() === null && asked.peek() !== "")
      refused.value = { filter: asked.peek(), problem: found.message };
  });
  /** False until the first answer. */
  const isLoaded = computed(
    () => pages.answer.value !== null || (pages.problem.value !== null && pages.isSettled.value),
  );

  const listed = computed(() =>
    pages.ids.value.map((id) => (id === undefined ? undefined : rows.value.get(id))),
  );
  /** Those of the project that fit the filter, in order, as far as their rows are here. */
  const fitting = computed(() => listed.value.filter((row) => row !== undefined));
  const numFitting = computed(() => pages.answer.value?.total ?? 0);
  /** What is wrong with the filter. */
  const filterProblem = computed(() =>
    isRefused.value
      ? refused.value!.problem
      : pages.problem.value?.status === BAD_REQUEST
        ? pages.problem.value.message
        : null,
  );
  /** Why there is no list. */
  const problem = computed(() =>
    pages.problem.value === null || filterProblem.value !== null
      ? null
      : pages.problem.value.message,
  );
  /** Of how many runs only identity and status are known: a filter could not judge them. */
  const numUnsummarised = computed(() => pages.answer.value?.unsummarised ?? 0);
  /** Configuration keys that any run has, in dotted form. */
  const configKeys = computed(() => {
    const keys = new Set<string>();
    for (const row of ofProject.value)
      for (const [key] of flatConfig(row.config ?? {})) keys.add(key);
    return [...keys].sort();
  });
  const groups = computed((): readonly RunGroup[] => {
    const answer = pages.answer.value;
    if (answer === null || answer.groups.length === 0)
      return [{ title: null, count: numFitting.value, rows: fitting.value }];
    const titled: { title: string; count: number }[] = [];
    for (const { values, count } of answer.groups) {
      const title = valuesTitle(answer.request.choice.groupKeys ?? [], values);
      // To the server 1 and 1.0 differ; a person sees one group.
      if (titled.at(-1)?.title === title) titled.at(-1)!.count += count;
      else titled.push({ title, count });
    }
    let at = 0;
    return titled.map((group) => {
      const rows = listed.value.slice(at, at + group.count);
      at += group.count;
      return { ...group, rows: rows.filter((row) => row !== undefined) };
    });
  });
  /** Where each group begins among the lines: its heading, then its runs. */
  const headings = computed(
    (): readonly {
      readonly at: number;
      readonly title: string;
      readonly count: number;
      readonly rows: readonly RunRow[] | null;
    }[] => {
      let at = 0;
      return groups.value.flatMap(({ title, count, rows: members }) => {
        const heading = {
          title: title ?? "",
          count,
          rows: members.length === count ? members : null,
          at,
        };
        at += count + 1;
        return title === null ? [] : [heading];
      });
    },
  );
  const lineAt = (index: number): RunLine | undefined => {
    const known = headings.value;
    let low = 0;
    for (let high = known.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (known[middle]!.at <= index) low = middle + 1;
      else high = middle;
    }
    const heading = known[low - 1];
    if (heading?.at === index)
      return { kind: "group", title: heading.title, count: heading.count, rows: heading.rows };
    const place = index - low;
    return { kind: "run", row: listed.value[place], index: place };
  };

  /** Whether charts draw the runs of the list as quantiles, because they are too many for a line each. */
  const isCrowd = computed(
    () =>
      view.isAll.value &&
      numShown.value > MOST_SHOWN &&
      source.sweep.curves !== null &&
      view.groupBy.value === null,
  );
  /** Groups are drawn of all runs of the list. */
  const showsAll = computed(
    () => view.isAll.value || (view.groupBy.value !== null && view.spread.value !== "none"),
  );
  /** How many runs are checked. */
  const numShown = computed((): number =>
    showsAll.value
      ? numFitting.value -
        view.without.value.filter((id) => fitting.value.some((row) => row.id === id)).length
      : shown.value.length,
  );
  /** In the charts, one by one. */
  const shown = computed((): readonly RunRow[] => {
    const chosen = view.shown.value;
    if (view.isAll.value)
      return fitting.value
        .filter(({ id }) => !view.without.value.includes(id))
        .slice(0, isCrowd.value ? SHOWN_AT_FIRST : MOST_SHOWN);
    if (chosen === null)
      return fitting.value
        .filter(({ hidden, problem: isBad }) => !hidden && isBad === null)
        .slice(0, frozen.value === null ? SHOWN_AT_FIRST : MOST_SHOWN);
    return chosen
      .map((id) => rows.value.get(id))
      .filter((row) => row !== undefined)
      .slice(0, MOST_SHOWN);
  });
  /** Drawn in the charts: those shown and, ticked or not, the one that was chosen. */
  const drawn = computed((): readonly RunRow[] => {
    const chosen = view.focus.value === null ? undefined : rows.value.get(view.focus.value);
    return chosen === undefined || shown.value.includes(chosen)
      ? shown.value
      : [...shown.value, chosen];
  });
  const shownIds = computed(() => new Set(shown.value.map(({ id }) => id)));
  /** The run that the page chose last; it stays when the list is sorted, grouped or filtered, while it is in the list. */
  let automatic = { id: "", arrangement: "", isKept: false };
  /** The run that panels of one run show. */
  const focus = computed((): RunRow | null => {
    const chosen = view.focus.value === null ? undefined : rows.value.get(view.focus.value);
    if (chosen !== undefined) return chosen;
    const arrangement = [view.order.value, view.groupBy.value, view.filter.value].join("\n");
    const kept = fitting.value.find(({ id }) => id === automatic.id);
    const isKept =
      kept !== undefined && (automatic.isKept || arrangement !== automatic.arrangement);
    const row =
      (isKept ? kept : shown.value.find(({ status }) => status.state === "running")) ??
      shown.value[0] ??
      fitting.value[0] ??
      null;
    automatic = { id: row?.id ?? "", arrangement, isKept };
    return row;
  });
  // Runs that the address names and whose rows are not among those in view.
  effect(() => {
    if (pages.answer.value === null) return;
    void unknown.value;
    const named = [view.focus.value, view.baseline.value, ...(view.shown.value ?? [])].filter(
      (id) => id !== null,
    );
    const wanted = [...new Set(named)]
      .filter((id) => !rows.peek().has(id) && !unknown.peek().has(id))
      .slice(0, MOST_SHOWN);
    if (wanted.length === 0) return;
    // A query has at most 2,000 characters.
    for (let at = 0; at < wanted.length; at += IDS_AT_ONCE) {
      const ids = wanted.slice(at, at + IDS_AT_ONCE);
      void source
        .runs({
          query: `id in [${ids.map(quoted).join(", ")}]`,
          choice: { ids },
          limit: ids.length,
          withConfig: true,
          summaries: HEADLINES,
        })
        .then(
          (list) => {
            merge(list.rows);
            const left = ids.filter((id) => !rows.peek().has(id));
            unknown.value = new Set([...unknown.peek(), ...left]);
          },
          () => undefined,
        );
    }
  });
  const missing = computed((): Missing | null => {
    if (!isLoaded.value || problem.value !== null) return null;
    const [project, run] = [view.project.value, view.focus.value];
    const unknownProject = chosenProjects(project, projects.value)?.find(
      (name) => !projects.value.includes(name),
    );
    if (unknownProject !== undefined && numStored.value > 0)
      return { kind: "project", name: unknownProject };
    if (run === null || rows.value.has(run)) return null;
    return unknown.value.has(run) ? { kind: "run", name: run } : null;
  });
  const slots = signal<ReadonlyMap<string, number>>(new Map());
  effect(() => {
    const focused = focus.value;
    const before = slots.peek();
    // By the place among all runs, so that a link has the same colours as the page that it came from. Of runs with the same colour the newest keeps it.
    const places = new Map(
      ofProject
        .peek()
        .toSorted(newestLast)
        .map(({ id }, index) => [id, index % NUM_BRIGHT]),
    );
    const ids = shown.value
      .toSorted(
        (one, other) =>
          Number(before.has(other.id)) - Number(before.has(one.id)) || newestLast(other, one),
      )
      .map(({ id }) => id);
    const next = assignSlots(
      [...new Set([...ids, ...(focused === null ? [] : [focused.id])])],
      new Map([...places, ...before]),
    );
    if (
      next.size !== slots.peek().size ||
      [...next].some(([id, slot]) => slots.peek().get(id) !== slot)
    )
      slots.value = next;
  });
  // Where a group is drawn as one line, its members have the line's colour.
  const groupSlots = computed(() => {
    const isDrawn = view.groupBy.value !== null && view.spread.value !== "none";
    // By the title too: not all members may have come.
    return coloringOf(
      new Map(
        isDrawn
          ? groups.value.map(
              ({ title, rows: members }) =>
                [title ?? "", [title ?? "", ...members.map(({ id }) => id)]] as const,
            )
          : [],
      ),
      (id) => id,
    ).slots;
  });
  const chosen = computed(() => chosenSlots(view.colors.value));
  /** How runs in the charts are coloured by a value of their config; null where each has a colour of its own. */
  const coloring = computed(() =>
    view.colorBy.value === null ? null : coloringBy(drawn.value, view.colorBy.value),
  );
  const slot = (id: string): number =>
    chosen.value.get(id) ??
    groupSlots.value.get(id) ??
    coloring.value?.slots.get(id) ??
    slots.value.get(id) ??
    0;
  const namesakes = computed(() => groupBy(all.value, ({ name }) => name));

  /** Put newer rows in place. */
  const merge = (changed: readonly RunRow[]): void => {
    const next = new Map(rows.peek());
    for (const row of changed) {
      next.set(row.id, merged(next.get(row.id), row));
      updated.delete(row.id);
    }
    rows.value = next;
  };
  let lastToggled: string | null = null;
  /** Whether a run is checked: in the charts by itself, or as one of a crowd. */
  const isShown = (id: string): boolean =>
    showsAll.value ? !view.without.value.includes(id) : shownIds.value.has(id);
  const show = (ids: readonly string[] | null, isAll = false): void =>
    batch(() => {
      view.shown.value = ids;
      view.isAll.value = isAll;
      view.without.value = [];
    });
  /** Rows that the next refresh puts in place: everything on the page reads them, so it is drawn again. */
  const updated = new Map<string, RunRow>();
  const latest = (id: string): RunRow | undefined => updated.get(id) ?? rows.peek().get(id);
  const update = (changed: readonly RunRow[]): void => {
    for (const row of changed)
      if (rows.peek().has(row.id)) updated.set(row.id, merged(latest(row.id), row));
  };
  /** Take runs out of the list that were deleted. */
  const forget = (ids: ReadonlySet<string>): void => {
    pages.forget(ids);
    rows.value = new Map([...rows.peek()].filter(([id]) => !ids.has(id)));
  };

  return {
    isLoaded,
    problem,
    all,
    projects,
    fitting,
    numFitting,
    numUnsummarised,
    isSettled: pages.isSettled,
    filterProblem,
    missing,
    groupKeys,
    groups,
    configKeys,
    shown,
    shownIds,
    isShown,
    numShown,
    showsAll,
    sweepQuery,
    isCrowd,
    drawn,
    focus,
    listQuery,
    lineAt,
    forget,
    /** What selects and orders the runs of which there are too many for this page; null where it has all. */
    bigList: computed(() =>
      isLong.value && source.supportsQueries
        ? { query: request.value.query, order: request.value.order ?? "" }
        : null,
    ),
    /** How many runs there are, whatever the filter. */
    numAll: numStored,
    /** How many lines the list has. */
    numLines: computed(() => numFitting.value + headings.value.length),
    /** Have the rows of these lines come. */
    wantLines(start: number, stop: number): void {
      const before = headings.peek().filter(({ at }) => at < start).length;
      pages.want(Math.max(0, start - before - 1), stop);
    },
    /** Have as many rows come as a table or a picture of all can use. */
    wantMany: () => pages.want(0, MOST_ROWS),
    baseline: computed(() =>
      view.baseline.value === null ? null : (rows.value.get(view.baseline.value) ?? null),
    ),
    row: (id: string): RunRow | undefined => rows.value.get(id),
    /** Palette slot of a run in the charts. */
    slot,
    /** Palette slot of the group of that title; one that the list does not have has the colour of its first run. */
    groupSlot: (title: string, first: string): number => groupSlots.value.get(title) ?? slot(first),
    coloring,
    /** What the run is called here: its name, told apart from others of the same name. */
    label(id: string): string {
      const row = rows.value.get(id);
      if (row === undefined) return id;
      const others = namesakes.value.get(row.name)?.length ?? 1;
      return others > 1
        ? `${row.name} · ${(chosenProjects(view.project.value, projects.value)?.length ?? 2) > 1 ? `${row.project} ` : ""}${row.id.slice(0, 6)}`
        : row.name;
    },
    /** Show a run in the charts, or hide it; with `isRange`, all from the last one that was clicked up to it. False where not all could be changed. */
    toggle(id: string, isRange = false): boolean {
      const isOn = !isShown(id);
      const listed = pages.ids.peek();
      const ends =
        isRange && lastToggled !== null ? [listed.indexOf(lastToggled), listed.indexOf(id)] : [-1];
      lastToggled = id;
      const range =
        Math.min(...ends) < 0 ? [id] : listed.slice(Math.min(...ends), Math.max(...ends) + 1);
      const which = range.filter((one) => one !== undefined);
      const named = showsAll.value ? view.without.value : shown.value.map((row) => row.id);
      const next =
        isOn === showsAll.value
          ? named.filter((one) => !which.includes(one))
          : [...new Set([...named, ...which])];
      if (showsAll.value) view.without.value = next;
      else view.shown.value = next.slice(0, MOST_SHOWN);
      return which.length === range.length && (showsAll.value || next.length <= MOST_SHOWN);
    },
    /** Show a run alone; once more shows the newest again. */
    soloOn(id: string): void {
      const isAlone = view.shown.value?.length === 1 && view.shown.value[0] === id;
      show(isAlone ? null : [id]);
      if (isAlone) return;
      // Alone means without another that was chosen before.
      view.focus.value = id;
    },
    /** Show these in the charts; returns how many of them, because charts have a limit. */
    showOnly(ids: readonly string[]): number {
      show(ids.slice(0, MOST_SHOWN));
      return Math.min(ids.length, MOST_SHOWN);
    },
    /** Show all runs of the list: up to the limit of charts one by one, more as quantiles. */
    showAll: () => show(null, true),
    /** Show the newest runs, as at first. */
    showNewest: () => show(null),
    reload: pages.reload,
    hold: pages.hold,
    /** The stream of updates has begun: what came after the list is asked for. */
    joined: () => reloadSoon(JOINED_MS),
    apply(news: Update): void {
      if (news.type === "status") update([news.row]);
      if (news.type !== "runs") return;
      update([...news.added, ...news.changed]);
      if (news.removed.length > 0) forget(new Set(news.removed));
      // A run that was missing may have been restored, and the run in focus deleted.
      unknown.value = new Set(
        [...unknown.peek()].filter((id) => news.added.every((row) => row.id !== id)),
      );
      const isNew = news.all || news.added.length + news.removed.length > 0;
      if (isNew || isMoving.peek())
        reloadSoon(isNew && !isLong.peek() ? RELOAD_MS : LONG_RELOAD_MS);
    },
    /** Show what updates have changed. */
    refresh() {
      if (updated.size > 0) merge([...updated.values()].filter(({ id }) => rows.peek().has(id)));
      updated.clear();
    },
    /** Put a newer value of the headline metric into a row. */
    setHeadline(id: string, role: string, last: number): void {
      const row = latest(id);
      const before = row?.summaries[role];
      if (row === undefined || before === undefined || before.last === last) return;
      update([
        {
          ...row,
          summaries: {
            [role]: {
              ...before,
              last: Number.isFinite(last) ? last : null,
              last_nonfinite: nonfiniteWord(last),
            },
          },
        },
      ]);
    },
  };
}

function newestLast(one: RunRow, other: RunRow): number {
  return (one.created ?? 0) - (other.created ?? 0);
}

function merged(before: RunRow | undefined, row: RunRow): RunRow {
  return {
    ...row,
    config: Object.keys(row.config).length > 0 ? row.config : (before?.config ?? {}),
    summaries: { ...before?.summaries, ...row.summaries },
  };
}
