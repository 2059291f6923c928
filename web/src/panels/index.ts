/** Every panel, in the order of its tab. */

import { chartsPanel } from "./charts.tsx";
import { comparePanel } from "./compare.tsx";
import { configPanel } from "./config.tsx";
import { expertsPanel } from "./experts.tsx";
import { findingsPanel } from "./findings.tsx";
import { graphPanel } from "./graph.tsx";
import { histogramsPanel } from "./histograms.tsx";
import { imagesPanel } from "./images.tsx";
import { logPanel } from "./log.tsx";
import { overviewPanel } from "./overview.tsx";
import type { Panel } from "./panel.ts";
import { performancePanel } from "./performance.tsx";
import { systemPanel } from "./system.tsx";
import { textPanel } from "./text.tsx";

export const PANELS: readonly Panel[] = [
  overviewPanel,
  chartsPanel,
  comparePanel,
  performancePanel,
  systemPanel,
  expertsPanel,
  histogramsPanel,
  textPanel,
  imagesPanel,
  graphPanel,
  findingsPanel,
  logPanel,
  configPanel,
];
