/**
 * A panel is one tab of the page: one file of this folder that exports it as `panel`, with its style beside it. The first comment of the file
 * says what it shows; the guide prints it.
 */

import type { ComponentType } from "preact";

import type { Page } from "../state/page.ts";

export interface PanelProps {
  readonly page: Page;
}

export interface Panel {
  /** Part of the URL as `panel=`; never changes once released. */
  readonly id: string;
  readonly title: string;
  /** Where its tab stands: tabs ascend by this number. */
  readonly order: number;
  /** The key that opens it: one that no other panel and no shortcut of the page has (`?` lists them). */
  readonly shortcut: string;
  /** Mounted while its tab is open. Reads signals of the page; state that a shared link restores goes through `page.view`. */
  readonly component: ComponentType<PanelProps>;
  /** Whether it follows the choices of the bar above: of how times are written alone, or of charts with lines. Without it there is no bar. */
  readonly viewBar?: "times" | "charts";
  /** A number beside the title; undefined for none. Reads signals. */
  readonly count?: (page: Page) => number | undefined;
}
