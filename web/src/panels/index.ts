/** Every panel, in the order of its tab. */

import type { Panel } from "./panel.ts";

export const PANELS: readonly Panel[] = [];
