/** The names under a line chart: a click shows one series alone, with shift or ctrl it adds one or takes one away. */

import { slotSample } from "../palette.ts";
import type { Trace } from "../series.ts";
import { element } from "../tooltip.ts";
import { isDimmed } from "./options.ts";
import type { Emphasis } from "./options.ts";

export interface LegendHooks {
  solo(ids: ReadonlySet<string>): void;
  hover(id: string | null): void;
}

export interface Legend {
  update(traces: readonly Trace[], emphasis: Emphasis, baseline: string | null): void;
  destroy(): void;
}

/** The selection after a click on `id`. */
export function nextSolo(solo: ReadonlySet<string>, id: string, isAdding: boolean): Set<string> {
  if (!isAdding) return solo.size === 1 && solo.has(id) ? new Set() : new Set([id]);
  const next = new Set(solo);
  if (!next.delete(id)) next.add(id);
  return next;
}

export function createLegend(root: HTMLElement, hooks: LegendHooks): Legend {
  const list = element("div", "chart-legend");
  root.append(list);
  let current: Emphasis = { solo: new Set(), hovered: null };
  let entries: readonly (readonly [button: HTMLElement, trace: Trace])[] = [];
  let shown = "";
  let last: { readonly traces: readonly Trace[]; readonly emphasis: Emphasis; readonly baseline: string | null } | null = null;
  const idOf = (event: Event): string | null => {
    const button = event.target instanceof Element ? event.target.closest("button") : null;
    return button?.dataset["id"] ?? null;
  };
  list.addEventListener("click", (event) => {
    const id = idOf(event);
    if (id !== null) hooks.solo(nextSolo(current.solo, id, event.shiftKey || event.ctrlKey || event.metaKey));
  });
  list.addEventListener("pointerover", (event) => {
    if (event.pointerType === "mouse") hooks.hover(idOf(event));
  });
  list.addEventListener("pointerleave", () => hooks.hover(null));

  return {
    update(traces, emphasis, baseline) {
      // A chart that only moves asks at every frame.
      if (last !== null && last.traces === traces && last.emphasis === emphasis && last.baseline === baseline) return;
      last = { traces, emphasis, baseline };
      current = emphasis;
      const names = JSON.stringify(traces.map(({ id, label, slot, dash }) => [id, label, slot, dash, id === baseline]));
      if (names !== shown) {
        // Replacing the buttons would take the focus away, so only a change of names does.
        entries = traces.map((trace) => [entry(trace, trace.id === baseline), trace] as const);
        list.replaceChildren(...entries.map(([button]) => button));
        shown = names;
      }
      for (const [button, trace] of entries) {
        button.setAttribute("aria-pressed", String(emphasis.solo.has(trace.id)));
        button.classList.toggle("is-dimmed", isDimmed(trace, { solo: emphasis.solo, hovered: null }));
      }
    },
    destroy() {
      list.remove();
    },
  };
}

function entry(trace: Trace, isBaseline: boolean): HTMLElement {
  const button = element("button", "chart-legend-entry");
  button.setAttribute("type", "button");
  button.dataset["id"] = trace.id;
  button.title = trace.label;
  const swatch = element("i", "chart-swatch");
  swatch.style.background = slotSample(trace.slot, trace.dash);
  button.append(swatch, element("span", "chart-legend-label", trace.label));
  if (isBaseline) button.append(element("span", "chart-legend-note", "baseline"));
  return button;
}
