/** Tabs along one line; arrow keys move between them. */

import type { JSX } from "preact";
import { useRef } from "preact/hooks";

export interface Tab<Id extends string = string> {
  readonly id: Id;
  readonly label: string;
}

export interface TabsProps<Id extends string> {
  readonly label: string;
  readonly tabs: readonly Tab<Id>[];
  readonly active: string;
  /** Id of the element the tabs change. */
  readonly panelId: string;
  readonly onChange: (id: Id) => void;
}

export function Tabs<Id extends string>({
  label,
  tabs,
  active,
  panelId,
  onChange,
}: TabsProps<Id>): JSX.Element {
  const list = useRef<HTMLDivElement>(null);
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
        <button
          key={tab.id}
          type="button"
          role="tab"
          class="tab"
          aria-selected={tab.id === active}
          aria-controls={panelId}
          tabIndex={tab.id === active ? 0 : -1}
          onClick={() => onChange(tab.id)}
        >
          {tab.label}
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
