/**
 * The places of the page and the sections of a run. A section is one file of this folder that exports it as `section`, with its style beside it.
 * The first comment of the file says what it shows; the guide prints it.
 */

import type { ComponentType } from "preact";

import type { Page } from "../state/page.ts";
import type { PlaceId } from "../state/view.ts";
import type { RunDetail, RunRow } from "../wire.ts";

export interface PanelProps {
  readonly page: Page;
}

export interface Place {
  readonly id: PlaceId;
  readonly title: string;
  readonly shortcut: string;
  readonly component: ComponentType<PanelProps>;
}

export interface SectionProps extends PanelProps {
  readonly run: RunRow;
  readonly detail: RunDetail;
}

export interface RunSection {
  /** Part of the address as `at=`. */
  readonly id: string;
  readonly title: string;
  /** Sections ascend by this number. */
  readonly order: number;
  /** The key that opens it: one that no other section and no shortcut of the page has (`?` lists them). */
  readonly shortcut: string;
  /** Mounted while the section is open. Reads signals of the page; state that a shared link restores goes through `page.view`. */
  readonly component: ComponentType<SectionProps>;
  /** Whether the run in focus has anything to show here; without content a section does not appear. */
  readonly hasContent: (page: Page, detail: RunDetail) => boolean;
  /** A number beside the title; undefined for none. Reads signals. */
  readonly count?: (page: Page) => number | undefined;
}
