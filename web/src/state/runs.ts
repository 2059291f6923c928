/** The list of runs: what there is, what fits the filter, what is in the charts, and in which colour. */

import { computed, effect, signal } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";

import { assignSlots } from "../chart/index.ts";
import type { Update, Source } from "../source/source.ts";
import { compileFilter, patternQuery } from "../ui/filter.ts";
import type { RunRow, Summary } from "../wire.ts";
import { configText, flatConfig } from "./config.ts";
import { groupBy } from "./group-by.ts";
import type { View } from "./view.ts";

export interface RunGroup {
  /** The value of the configuration key; null when runs are not grouped. */
  readonly title: string | null;
  readonly rows: readonly RunRow[];
}

export interface Runs {
  /** False until the first answer. */
  readonly isLoaded: ReadonlySignal<boolean>;
  /** Why there is no list. */
  readonly problem: ReadonlySignal<string | null>;
  readonly all: ReadonlySignal<readonly RunRow[]>;
  readonly projects: ReadonlySignal<readonly string[]>;
  /** Those of the project that fit the filter, in order. */
  readonly fitting: ReadonlySignal<readonly RunRow[]>;
  /** What is wrong with the filter. */
  readonly filterProblem: ReadonlySignal<string | null>;
  readonly groups: ReadonlySignal<readonly RunGroup[]>;
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
  /** What the run is called here: its name, told apart from others of the same name. */
  label(id: string): string;
  toggle(id: string): void;
  soloOn(id: string): void;
  showOnly(ids: readonly string[]): void;
  reload(): void;
  apply(update: Update): void;
  /** Put a newer value of the headline metric into a row. */
  setHeadline(id: string, role: string, last: number): void;
}

/** With fewer than this, all runs are in the charts at first. */
const SHOWN_AT_FIRST = 8;
const MOST_SHOWN = 100;
const PAGE_ROWS = 500;
const QUERY_ROWS = 5000;
export const HEADLINES: readonly string[] = ["role:loss", "role:eval_loss"];
const RELOAD_MS = 5000;

/** The ids of all runs that a query selects, window by window. */
async function matchingIds(source: Source, query: string): Promise<ReadonlySet<string>> {
  const ids = new Set<string>();
  for (let offset = 0, total = 1; offset < total; offset += QUERY_ROWS) {
    const list = await source.runs({ query, offset, limit: QUERY_ROWS });
    for (const { id } of list.rows) ids.add(id);
    total = list.total;
  }
  return ids;
}

export function createRuns(source: Source, view: View): Runs {
  const rows = signal<ReadonlyMap<string, RunRow>>(new Map());
  const isLoaded = signal(false);
  const problem = signal<string | null>(null);
  const queried = signal<{ readonly ids: ReadonlySet<string> | null; readonly problem: string | null }>({ ids: null, problem: null });
  let numLoads = 0;
  let reloading: ReturnType<typeof setTimeout> | undefined;

  const load = async (): Promise<void> => {
    const mine = ++numLoads;
    const found = new Map<string, RunRow>();
    let isPending = false;
    try {
      for (let total = 1; found.size < total; ) {
        const list = await source.runs({ offset: found.size, limit: PAGE_ROWS, withConfig: true, summaries: HEADLINES, order: "-created" });
        if (mine !== numLoads) return;
        for (const row of list.rows) found.set(row.id, row);
        total = list.rows.length === 0 ? 0 : list.total;
        isPending = (list.pending ?? 0) > 0;
        if (!isLoaded.value) rows.value = new Map(found);
      }
      rows.value = found;
      problem.value = null;
    } catch (error) {
      problem.value = error instanceof Error ? error.message : String(error);
    }
    isLoaded.value = true;
    if (isPending) reloadSoon();
  };
  const reloadSoon = (): void => {
    reloading ??= setTimeout(() => {
      reloading = undefined;
      void load();
    }, RELOAD_MS);
  };

  const all = computed(() => [...rows.value.values()]);
  const projects = computed(() => [...new Set(all.value.map(({ project }) => project))].sort());
  const ofProject = computed(() => {
    const project = view.project.value;
    return project === null ? all.value : all.value.filter((row) => row.project === project);
  });
  /** What the server is asked to choose runs by; empty where this page chooses. */
  const asked = computed(() => {
    const text = view.filter.value.trim();
    if (view.filterMode.value === "query") return text;
    const isPattern = view.filterMode.value === "regex" && text !== "" && compileFilter(text, true).error === null;
    return isPattern && source.supportsQueries ? patternQuery(text) : "";
  });
  const searchTexts = computed(() => all.value.map((row) => searchTextsOf(row).join(" ")).join("\n"));
  effect(() => {
    const query = asked.value;
    if (query === "") {
      queried.value = { ids: null, problem: null };
      return undefined;
    }
    // Asked when typing rests; a list that changes asks again.
    void (view.filterMode.value === "query" ? rows.value.size : searchTexts.value);
    const timer = setTimeout(() => {
      matchingIds(source, query).then(
        (ids) => {
          queried.value = { ids, problem: null };
        },
        (error: unknown) => {
          queried.value = { ids: queried.peek().ids, problem: error instanceof Error ? error.message : String(error) };
        },
      );
    }, 250);
    return () => clearTimeout(timer);
  });
  const fitting = computed(() => {
    const { ids } = queried.value;
    const isAsked = asked.value !== "" || view.filterMode.value === "query";
    const isRegex = view.filterMode.value === "regex";
    const filter = compileFilter(isAsked ? "" : view.filter.value.trim(), isRegex);
    const matches = (row: RunRow): boolean => (isRegex ? searchTextsOf(row).some(filter.matches) : filter.matches(searchTextsOf(row).join(" ")));
    const fits = ofProject.value.filter((row) => (isAsked ? ids === null || ids.has(row.id) : matches(row)));
    return ordered(fits, view.order.value);
  });
  const filterProblem = computed(() => {
    return asked.value === "" ? compileFilter(view.filter.value.trim(), view.filterMode.value === "regex").error : queried.value.problem;
  });
  const configKeys = computed(() => {
    const keys = new Set<string>();
    for (const row of ofProject.value) for (const [key] of flatConfig(row.config ?? {})) keys.add(key);
    return [...keys].sort();
  });
  const groups = computed((): readonly RunGroup[] => {
    const key = view.groupBy.value;
    if (key === null) return [{ title: null, rows: fitting.value }];
    return [...groupBy(fitting.value, (row) => configText(row.config, key))].map(([title, members]) => ({ title, rows: members }));
  });

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
  const namesakes = computed(() => groupBy(all.value, ({ name }) => name));

  const merge = (changed: readonly RunRow[]): void => {
    const next = new Map(rows.value);
    for (const row of changed) {
      const before = next.get(row.id);
      next.set(row.id, { ...row, config: row.config ?? before?.config ?? null, summary: { ...before?.summary, ...row.summary } });
    }
    rows.value = next;
  };
  const addDetails = (id: string): void => {
    void source.get("run", id).then((detail) => merge([{ ...detail.row, config: detail.config, summary: headlinesOf(detail) }]), reloadSoon);
  };
  void load();

  return {
    isLoaded, problem, all, projects, fitting, filterProblem, groups, configKeys, shown, shownIds, drawn, focus,
    baseline: computed(() => (view.baseline.value === null ? null : (rows.value.get(view.baseline.value) ?? null))),
    row: (id) => rows.value.get(id),
    slot: (id) => groupSlots.value.get(id) ?? slots.value.get(id) ?? 0,
    label(id) {
      const row = rows.value.get(id);
      if (row === undefined) return id;
      const others = namesakes.value.get(row.name)?.length ?? 1;
      return others > 1 ? `${row.name} · ${view.project.value === null ? `${row.project} ` : ""}${row.id.slice(0, 6)}` : row.name;
    },
    toggle(id) {
      const ids = shown.value.map((row) => row.id);
      view.solo.value = null;
      view.shown.value = ids.includes(id) ? ids.filter((one) => one !== id) : [...ids, id];
    },
    soloOn(id) {
      const isOn = view.solo.value !== id;
      view.solo.value = isOn ? id : null;
      // Alone means without another that was chosen before.
      if (isOn) view.focus.value = id;
    },
    showOnly(ids) {
      view.solo.value = null;
      view.shown.value = ids.slice(0, MOST_SHOWN);
    },
    reload: () => void load(),
    apply(update) {
      if (update.type === "status") merge([update.row]);
      if (update.type !== "runs") return;
      if (update.all) {
        void load();
        return;
      }
      merge([...update.added, ...update.changed]);
      if (update.removed.length > 0) {
        const next = new Map(rows.value);
        for (const id of update.removed) next.delete(id);
        rows.value = next;
      }
      for (const { id } of update.added) addDetails(id);
    },
    setHeadline(id, role, last) {
      const row = rows.value.get(id);
      const before = row?.summary[role];
      if (row === undefined || before === undefined || before.last === last) return;
      merge([{ ...row, summary: { [role]: { ...before, last: Number.isFinite(last) ? last : null, last_nonfinite: nonfiniteWord(last) } } }]);
    },
  };
}

/** The value that stands for a run in a list, and what it is. */
export function headline(row: RunRow): { readonly role: string; readonly summary: Summary } | null {
  for (const role of HEADLINES) {
    const summary = row.summary[role];
    if (summary !== undefined) return { role: role.replace("role:", "").replace("_", " "), summary };
  }
  return null;
}

export function isEnded({ status }: RunRow): boolean {
  return !["waiting", "running", "silent"].includes(status.state);
}

function headlinesOf(detail: { readonly roles: Readonly<Record<string, string>>; readonly metrics: readonly { readonly name: string; readonly summary: Summary | null }[] }): Record<string, Summary> {
  const found: Record<string, Summary> = {};
  for (const headlineRole of HEADLINES) {
    const name = detail.roles[headlineRole.replace("role:", "")];
    const summary = detail.metrics.find((metric) => metric.name === name)?.summary;
    if (summary != null) found[headlineRole] = summary;
  }
  return found;
}

/** What the search box looks through; the field `text` of the server's queries. */
function searchTextsOf(row: RunRow): readonly string[] {
  return [row.name, row.id, ...row.tags, row.status.state];
}

function ordered(rows: readonly RunRow[], order: string): readonly RunRow[] {
  const isDown = order.startsWith("-");
  const key = order.replace(/^-/, "");
  const valueOf = (row: RunRow): number | string | null => {
    if (key === "name") return row.name;
    if (key === "created") return row.created;
    if (key === "updated") return row.updated;
    return row.summary[key]?.last ?? null;
  };
  return [...rows].sort((one, other) => {
    const [a, b] = [valueOf(one), valueOf(other)];
    // What is not known comes last, whichever way around.
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    const sign = a < b ? -1 : a > b ? 1 : 0;
    return isDown ? -sign : sign;
  });
}

function nonfiniteWord(value: number): Summary["last_nonfinite"] {
  if (Number.isFinite(value)) return null;
  return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
}
