/** Runs with more metrics than their answers list: a filter or a section has others of them listed. */

import { computed } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { groupOf } from "../../state/metrics.ts";
import type { Page } from "../../state/page.ts";
import { isWide } from "../../state/run-details.ts";
import type { RunDetail } from "../../wire.ts";

export interface WideMetrics {
  readonly total: number;
  /** How many the filter finds in the runs; null before the answer. */
  readonly numFound: number | null;
  /** How many metrics each section has. */
  readonly sections: ReadonlyMap<string, number>;
  /** Have more metrics of a section listed. */
  more(section: string): void;
}

/** So many that a filter finds are listed, and so many more of a section at once. */
const AT_ONCE = 200;
const OF_SECTION = 1000;
/** People stop typing before they read. */
const TYPING_MS = 250;
/** More wide runs than this are not asked at once. */
const MOST_ASKED = 8;

/** The metrics of the run that has most of them, listed or not. */
function numMetrics(page: Page): number {
  return wideOf(page).reduce((most, { num_metrics }) => Math.max(most, num_metrics), 0);
}

export function wideOf({ runs, details }: Page): readonly RunDetail[] {
  return runs.drawn.value
    .map(({ id }) => details.of(id).value)
    .filter((detail) => detail !== null)
    .filter(isWide);
}

/** Null unless a run that is drawn has more metrics than are listed. */
export function useWideMetrics(page: Page): WideMetrics | null {
  const { view, details } = page;
  const wide = useMemo(() => computed(() => wideOf(page)), [page]).value;
  const [numFound, setNumFound] = useState<number | null>(null);
  const ids = wide.slice(0, MOST_ASKED).map(({ row }) => row.id);
  const find = async (wanted: Parameters<typeof details.find>[1]): Promise<number> => {
    const totals = await Promise.all(ids.map((id) => details.find(id, wanted).catch(() => 0)));
    return Math.max(0, ...totals);
  };
  const text = view.metrics.value;
  useEffect(() => {
    setNumFound(null);
    if (ids.length === 0 || text.trim() === "") return;
    let isWanted = true;
    const timer = setTimeout(
      () =>
        void find({ find: text, limit: AT_ONCE }).then((total) => isWanted && setNumFound(total)),
      TYPING_MS,
    );
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [text, ids.join(" ")]);
  const nextOf = useRef(new Map<string, number>());
  if (wide.length === 0) return null;
  const sections = new Map<string, number>();
  for (const detail of wide)
    for (const [section, count] of Object.entries(detail.sections))
      sections.set(section, Math.max(count, sections.get(section) ?? 0));
  return {
    total: numMetrics(page),
    numFound,
    sections,
    more(section) {
      for (const { row, metrics: listed } of wide.slice(0, MOST_ASKED)) {
        const key = `${row.id}\n${section}`;
        // Those with a role are listed wherever they stand; what is listed twice does no harm.
        const first = listed.filter(
          ({ name, role }) => role === null && groupOf(name) === section,
        ).length;
        const offset = nextOf.current.get(key) ?? first;
        nextOf.current.set(key, offset + OF_SECTION);
        void details.find(row.id, { section, offset, limit: OF_SECTION });
      }
    },
  };
}
