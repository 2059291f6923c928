/** Whether charts show all runs of the list at once. */

import type { Page } from "./page.ts";

export function isCrowd({ view, source }: Pick<Page, "view" | "source">): boolean {
  return view.isCrowd.value && source.sweep.curves !== null && view.solo.value === null && view.groupBy.value === null;
}
