/** A search box of a panel whose words stay in the address. */

import type { Page } from "../../state/page.ts";
import { compileFilter } from "../../ui/filter.ts";

export interface Search {
  readonly query: string;
  readonly isRegex: boolean;
  readonly matches: (text: string) => boolean;
  readonly onChange: (query: string, isRegex: boolean) => void;
}

export function searchOf(page: Page, key: string): Search {
  const query = page.view.text(key);
  const regex = page.view.text(`${key}-regex`);
  const isRegex = regex.value === "1";
  return {
    query: query.value,
    isRegex,
    matches: compileFilter(query.value, isRegex).matches,
    onChange: (text, asRegex) => {
      query.value = text;
      regex.value = asRegex ? "1" : "";
    },
  };
}
