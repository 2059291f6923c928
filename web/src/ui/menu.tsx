/** A button that opens a list of actions. */

import type { ComponentChildren, JSX } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";

import { nextIndex } from "./tabs.tsx";

export interface MenuItem {
  readonly label: string;
  /** Shown with a tick when true; leave out for plain actions. */
  readonly isOn?: boolean;
  readonly hint?: string;
  readonly isDisabled?: boolean;
  readonly run: () => void;
}

export interface MenuProps {
  readonly label: string;
  readonly tabIndex?: number;
  /** What the button shows; its name is `label`. */
  readonly children: ComponentChildren;
  /** A function is called while the menu is open. */
  readonly items: readonly (MenuItem | "divider")[] | (() => readonly (MenuItem | "divider")[]);
}

const EDGE_PX = 8;

export function Menu({ label, tabIndex, children, items }: MenuProps): JSX.Element {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const [isOpen, setOpen] = useState(false);
  // Before the next key: who opens a menu by keyboard goes on at once.
  useLayoutEffect(() => {
    if (!isOpen) return;
    const box = list.current!;
    box.showPopover();
    place(box, button.current!);
    entries(box)[0]?.focus();
  }, [isOpen]);

  const close = (): void => {
    setOpen(false);
    button.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const all = entries(list.current!);
    const next = nextIndex(
      event.key,
      all.indexOf(document.activeElement as HTMLButtonElement),
      all.length,
    );
    if (next !== null) {
      event.preventDefault();
      all[next]!.focus();
    } else if (event.key === "Escape" || event.key === "Tab") {
      event.stopPropagation();
      close();
    }
  };
  return (
    <>
      <button
        ref={button}
        type="button"
        class="button is-quiet"
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-controls={id}
        aria-label={label}
        title={label}
        tabIndex={tabIndex}
        onClick={() => setOpen(!isOpen)}
      >
        {children}
      </button>
      {isOpen && (
        <div
          ref={list}
          id={id}
          class="menu"
          role="menu"
          popover="auto"
          aria-label={label}
          onKeyDown={onKeyDown}
          onToggle={(event) => event.newState === "closed" && setOpen(false)}
        >
          {(typeof items === "function" ? items() : items).map((item, index) =>
            item === "divider" ? (
              <hr key={index} class="menu-divider" />
            ) : (
              <Entry key={index} item={item} onChosen={close} />
            ),
          )}
        </div>
      )}
    </>
  );
}

function Entry({
  item,
  onChosen,
}: {
  readonly item: MenuItem;
  readonly onChosen: () => void;
}): JSX.Element {
  const role = item.isOn === undefined ? "menuitem" : "menuitemcheckbox";
  return (
    // biome-ignore lint/a11y/useAriaPropsSupportedByRole: only a menuitemcheckbox has a value here
    <button
      type="button"
      role={role}
      class="menu-item"
      tabIndex={-1}
      aria-checked={item.isOn}
      disabled={item.isDisabled ?? false}
      onClick={() => {
        onChosen();
        item.run();
      }}
    >
      <span class="menu-tick" aria-hidden="true">
        {item.isOn ? "✓" : ""}
      </span>
      <span>{item.label}</span>
      {item.hint !== undefined && <span class="menu-hint">{item.hint}</span>}
    </button>
  );
}

function entries(box: HTMLElement): HTMLButtonElement[] {
  return [...box.querySelectorAll<HTMLButtonElement>(".menu-item:not(:disabled)")];
}

export function place(box: HTMLElement, button: HTMLElement): void {
  const at = button.getBoundingClientRect();
  const left = Math.min(at.left, document.documentElement.clientWidth - box.offsetWidth - EDGE_PX);
  const below = at.bottom + 4;
  const top =
    below + box.offsetHeight > innerHeight - EDGE_PX ? at.top - box.offsetHeight - 4 : below;
  box.style.left = `${Math.max(EDGE_PX, left)}px`;
  box.style.top = `${Math.max(EDGE_PX, top)}px`;
}
