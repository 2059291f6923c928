/** One run on one page: an overview, and below it the sections that have content. */

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

import type { Page } from "../state/page.ts";
import { Overview } from "./overview.tsx";
import type { PanelProps, Section } from "./panel.ts";
import { sectionsOfRun } from "./sections.ts";

export function Run({ page }: PanelProps): JSX.Element {
  const row = page.runs.focus.value;
  const detail = row === null ? null : page.details.of(row.id).value;
  const sections = detail === null ? [] : sectionsOfRun().filter(({ hasContent }) => hasContent(page, detail));
  return (
    <div class="run-place">
      <Overview page={page} />
      {sections.map((section) => <SectionOfRun key={section.id} page={page} section={section} />)}
    </div>
  );
}

/** A section is mounted while it is open, and scrolled to when the address names it. */
function SectionOfRun({ page, section: { id, title, component: Content, count } }: { readonly page: Page; readonly section: Section }): JSX.Element {
  const { section } = page.view;
  const isOpen = section.value === id;
  const element = useRef<HTMLElement>(null);
  useEffect(() => {
    if (isOpen) element.current?.scrollIntoView({ block: "start" });
  }, [isOpen]);
  const number = count?.(page);
  return (
    <section ref={element} class="group" aria-label={title} data-section={id}>
      <button type="button" class="group-head" aria-expanded={isOpen} onClick={() => (section.value = isOpen ? "" : id)}>
        <span class="group-arrow" aria-hidden="true">{isOpen ? "▾" : "▸"}</span>
        <h2>{title}</h2>
        {number !== undefined && <span class="group-count">{number}</span>}
      </button>
      {isOpen && <Content page={page} />}
    </section>
  );
}
