/** Every panel, in the order of its tab: each file of this folder that exports a `panel`. */

import type { Panel } from "./panel.ts";

const modules = import.meta.glob<{ readonly panel?: Panel }>("./*.tsx", { eager: true });

export const PANELS: readonly Panel[] = Object.values(modules)
  .map(({ panel }) => panel)
  .filter((panel) => panel !== undefined)
  .sort((one, other) => one.order - other.order);
