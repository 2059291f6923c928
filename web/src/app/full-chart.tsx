/** One chart that fills the page below the control bar; the address keeps it, Escape or Back leaves it. */

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

import { ChartMenu, Drawn } from "../panels/parts/chart-card.tsx";
import type { Pictured } from "../panels/parts/chart-card.tsx";
import { specOf } from "../state/boards.ts";
import { titleOf } from "../state/chart-spec.ts";
import type { Page } from "../state/page.ts";

export function FullChart({ page }: { readonly page: Page }): JSX.Element {
  const { view, boards, runs } = page;
  const chart = useRef<Pictured | null>(null);
  const name = view.full.value ?? "";
  const block = boards.board.value?.blocks.find(
    (one) => one.kind === "chart" && titleOf(one) === name,
  );
  const spec = block === undefined ? { series: [name] } : specOf(block);
  useEffect(() => {
    const leave = (event: KeyboardEvent): void => {
      if (
        event.key === "Escape" &&
        !event.defaultPrevented &&
        document.querySelector("dialog[open], .menu") === null
      )
        view.full.value = null;
    };
    document.addEventListener("keydown", leave);
    return () => document.removeEventListener("keydown", leave);
  }, []);
  if (!runs.isLoaded.value)
    return (
      <p class="card-note" role="status">
        Loading runs…
      </p>
    );
  return (
    <div class="full-chart">
      <header class="card-head">
        <h2>{name}</h2>
        <span class="card-space" />
        <ChartMenu
          page={page}
          spec={spec}
          isOnBoard={block !== undefined}
          chart={() => chart.current}
        />
        <button
          type="button"
          class="button is-quiet"
          aria-label="Leave full screen"
          title="Leave full screen (Esc)"
          onClick={() => (view.full.value = null)}
        >
          ✕
        </button>
      </header>
      <div class="full-body">
        <Drawn page={page} spec={spec} height="100%" onChart={(made) => (chart.current = made)} />
      </div>
    </div>
  );
}
