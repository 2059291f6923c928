/** Every section of a run: each file of this folder that exports a `section`. */

import type { Page } from "../state/page.ts";
import type { RunSection } from "./panel.ts";

const modules = import.meta.glob<{ readonly section?: RunSection }>(["./*.tsx", "!./run.tsx"], {
  eager: true,
});

export function sectionsOfRun(): readonly RunSection[] {
  return Object.values(modules)
    .map(({ section }) => section)
    .filter((section) => section !== undefined)
    .sort((one, other) => one.order - other.order);
}

/** Open a section of the run, and scroll to it even where it is open already. */
export function openSection(page: Page, id: string): void {
  page.open("run", id);
  scrollToSection(id);
}

export function scrollToSection(id: string): void {
  document.querySelector(`[data-section="${CSS.escape(id)}"]`)?.scrollIntoView({ block: "start" });
}
