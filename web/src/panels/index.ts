/** The places of the page in the order of their tabs, and the sections of a run in theirs. */

import { Board } from "./board.tsx";
import { Compare } from "./compare.tsx";
import type { Place } from "./panel.ts";
import { Projects } from "./projects.tsx";
import { Run } from "./run.tsx";

export const PLACES: readonly Place[] = [
  { id: "run", title: "Run", shortcut: "o", component: Run },
  { id: "board", title: "Board", shortcut: "c", component: Board },
  { id: "compare", title: "Compare", shortcut: "v", component: Compare },
  { id: "projects", title: "Projects", shortcut: "q", component: Projects },
];
