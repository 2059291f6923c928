/** Tabs along one line; arrow keys move between them. */

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

export interface Tab<Id extends string = string> {
  readonly id: Id;
  readonly label: string;
  readonly count?: number;
}

export interface TabsProps<Id extends string> {
  readonly label: string;
  readonly tabs: readonly Tab<Id>[];
  readonly active: string;
  /** Id of the element the tabs change. */
  readonly panelId: string;
  readonly onChange: (id: Id) => void;
}

export function Tabs<Id extends string>({ label, tabs, active, panelId, onChange }: TabsProps<Id>): JSX.Element {
  const list = useRef<HTMLDivElement>(null);
  // On a phone there are more tabs than room: the one that is open is never out of sight. Only the line scrolls, not the page.
  // After the picture: places are known then, and the first picture does not wait for them.
  useEffect(() => {
    const tab = list.current?.querySelector<HTMLElement>('[aria-selected="true"]');
    if (tab != null) list.current!.scrollLeft = tab.offsetLeft - list.current!.offsetLeft - (list.current!.clientWidth - tab.offsetWidth) / 2;
  }, [active, tabs.map(({ count }) => count).join()]);
  const move = (event: KeyboardEvent): void => {
    const at = tabs.findIndex(({ id }) => id === active);
    const next = nextIndex(event.key, at, tabs.length);
    if (next === null) return;
    event.preventDefault();
    onChange(tabs[next]!.id);
    (list.current?.children[next] as HTMLElement | undefined)?.focus();
  };
  return (
    <div ref={list} class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
      {tabs.map((tab) => (
        <button key={tab.id} type="button" role="tab" class="tab" aria-selected={tab.id === active} aria-controls={panelId}
          tabIndex={tab.id === active ? 0 : -1} onClick={() => onChange(tab.id)}>
          {tab.label}
          {tab.count !== undefined && <span class="tab-count">{tab.count}</span>}
        </button>
      ))}
    </div>
  );
}

/** Where an arrow, Home or End key leads in a ring of items; null for other keys. */
export function nextIndex(key: string, at: number, count: number): number | null {
  if (count === 0) return null;
  if (key === "ArrowRight" || key === "ArrowDown") return (at + 1) % count;
  if (key === "ArrowLeft" || key === "ArrowUp") return (at - 1 + count) % count;
  if (key === "Home") return 0;
  return key === "End" ? count - 1 : null;
}
