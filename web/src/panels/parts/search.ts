/** A search box of a panel whose words stay in the address. */

import type { Page } from "../../state/page.ts";
import { compileFilter } from "../../ui/filter.ts";

export interface Search {
  readonly query: string;
  readonly matches: (text: string) => boolean;
  readonly onChange: (query: string) => void;
}

export function searchOf(page: Page, key: string): Search {
  const query = page.view.text(key);
  return {
    query: query.value,
    matches: compileFilter(query.value),
    onChange: (text) => (query.value = text),
  };
}
