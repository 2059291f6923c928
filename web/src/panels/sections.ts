/** Every section of a run: each file of this folder that exports a `section`. */

import type { RunSection } from "./panel.ts";

const modules = import.meta.glob<{ readonly section?: RunSection }>("./*.tsx", { eager: true });

export function sectionsOfRun(): readonly RunSection[] {
  return Object.values(modules)
    .map(({ section }) => section)
    .filter((section) => section !== undefined)
    .sort((one, other) => one.order - other.order);
}
