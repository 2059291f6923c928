/** A titled box of a panel. */

import type { ComponentChildren, JSX } from "preact";

import "./section.css";

export interface SectionProps {
  readonly title: string;
  readonly note?: string | undefined;
  readonly tools?: ComponentChildren;
  /** Over the whole width of a grid. */
  readonly isWide?: boolean;
  readonly children: ComponentChildren;
}

export function Section({
  title,
  note,
  tools,
  isWide = false,
  children,
}: SectionProps): JSX.Element {
  return (
    <section
      class={`card section${isWide ? " is-wide" : ""}`}
      aria-label={title}
      data-title={title}
    >
      <header class="card-head">
        <h3 title={title}>{title}</h3>
        {note !== undefined && <span class="card-note section-note">{note}</span>}
        <span class="card-space" />
        {tools}
      </header>
      {children}
    </section>
  );
}
