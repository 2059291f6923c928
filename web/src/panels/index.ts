/** Every panel, in the order of its tab. */

import { chartsPanel } from "./charts.tsx";
import { overviewPanel } from "./overview.tsx";
import type { Panel } from "./panel.ts";

export const PANELS: readonly Panel[] = [overviewPanel, chartsPanel];
