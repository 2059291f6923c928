/** What a panel is: one tab of the page. Each is one file of this folder and one line in `panels/index.ts`. */

import type { ComponentType } from "preact";

import type { Page } from "../state/page.ts";

export interface PanelProps {
  readonly page: Page;
}

export interface Panel {
  /** Stands in the address as `panel=`; never changes once released. */
  readonly id: string;
  readonly title: string;
  /** The key that opens it. */
  readonly shortcut: string;
  /** Mounted while its tab is open. Reads signals of the page; everything a colleague should see goes through `page.view`. */
  readonly component: ComponentType<PanelProps>;
  /** A number beside the title; undefined for none. Reads signals. */
  readonly count?: (page: Page) => number | undefined;
}
