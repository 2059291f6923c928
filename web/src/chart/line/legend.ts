/** The names under a line chart, of lines or of what they are of: a click shows one alone, with shift or ctrl it adds one or takes one away. */

import { dashSample, slotCss } from "../palette.ts";
import type { Trace } from "../series.ts";
import { element } from "../tooltip.ts";
import { isDimmed } from "./options.ts";
import type { Emphasis } from "./options.ts";

export interface LegendHooks {
  solo(ids: ReadonlySet<string>): void;
  hover(id: string | null): void;
}

export interface Legend {
  update(
    traces: readonly Trace[],
    emphasis: Emphasis,
    baseline: string | null,
    isOfSubjects: boolean,
  ): void;
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
  list.hidden = true;
  root.append(list);
  let current: Emphasis = { solo: new Set(), hovered: null };
  let entries: readonly (readonly [button: HTMLElement, item: Item])[] = [];
  let last: readonly unknown[] = [];
  const idOf = (event: Event): string | null => {
    const button = event.target instanceof Element ? event.target.closest("button") : null;
    return button?.dataset.id ?? null;
  };
  list.addEventListener("click", (event) => {
    const id = idOf(event);
    if (id !== null)
      hooks.solo(nextSolo(current.solo, id, event.shiftKey || event.ctrlKey || event.metaKey));
  });
  list.addEventListener("pointerover", (event) => {
    if (event.pointerType === "mouse") hooks.hover(idOf(event));
  });
  list.addEventListener("pointerleave", () => hooks.hover(null));

  let shown = "";
  return {
    update(traces, emphasis, baseline, isOfSubjects) {
      // A chart that only moves asks at every frame.
      const given = [traces, emphasis, baseline, isOfSubjects];
      if (given.every((one, index) => one === last[index])) return;
      last = given;
      current = emphasis;
      const items = itemsOf(traces, isOfSubjects);
      const names = JSON.stringify([items, baseline]);
      if (names !== shown) {
        // Replacing the buttons would take the focus away, so only a change of names does.
        entries = items.map((item) => [entry(item, item.id === baseline), item] as const);
        list.replaceChildren(...entries.map(([button]) => button));
        list.hidden = items.length < 2;
        shown = names;
      }
      for (const [button, item] of entries) {
        button.setAttribute("aria-pressed", String(emphasis.solo.has(item.id)));
        button.classList.toggle(
          "is-dimmed",
          isDimmed(item, { solo: emphasis.solo, hovered: null }),
        );
      }
    },
    destroy() {
      list.remove();
    },
  };
}

type Item = Pick<Trace, "id" | "owner" | "subject" | "label"> & { readonly sample: string };

function itemsOf(traces: readonly Trace[], isOfSubjects: boolean): readonly Item[] {
  if (!isOfSubjects)
    return traces.map(({ id, owner, subject, label, slot, dash }) => ({
      id,
      owner,
      subject,
      label,
      sample: dashSample(slotCss(slot), dash),
    }));
  const bySubject = new Map(traces.map(({ subject, dash }) => [subject, dash]));
  return [...bySubject].map(([subject, dash]) => ({
    id: subject,
    owner: subject,
    subject,
    label: subject,
    sample: dashSample("var(--muted)", dash),
  }));
}

function entry({ id, label, sample }: Item, isBaseline: boolean): HTMLElement {
  const button = element("button", "chart-legend-entry");
  button.setAttribute("type", "button");
  button.dataset.id = id;
  button.title = label;
  const swatch = element("i", "chart-swatch");
  swatch.style.background = sample;
  button.append(swatch, element("span", "chart-legend-label", label));
  if (isBaseline) button.append(element("span", "chart-legend-note", "baseline"));
  return button;
}
