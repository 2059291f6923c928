import type { ComponentChildren, JSX } from "preact";

import { createLazyQueue } from "../src/chart/index.ts";

export const queue = createLazyQueue();

export function Card(props: { title: string; note?: string | undefined; tools?: ComponentChildren; children: ComponentChildren }): JSX.Element {
  return (
    <section class="card" data-title={props.title}>
      <header>
        <h3>{props.title}</h3>
        {props.note !== undefined && <span class="note">{props.note}</span>}
        <span class="tools">{props.tools}</span>
      </header>
      {props.children}
    </section>
  );
}
