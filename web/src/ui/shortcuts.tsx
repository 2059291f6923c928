/** Keyboard shortcuts and the sheet that lists them. */

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";

import { Dialog } from "./dialog.tsx";

export interface Shortcut {
  /** As `KeyboardEvent.key` gives it: `?`, `/`, `g`, `ArrowLeft`. */
  readonly key: string;
  readonly text: string;
  readonly group: string;
  readonly run: () => void;
}

/** Run the shortcut whose key is pressed, unless somebody is typing or a dialog is open. */
export function useShortcuts(shortcuts: readonly Shortcut[]): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      if (
        event.defaultPrevented ||
        event.ctrlKey ||
        event.metaKey ||
        event.altKey ||
        isBusy(event.target)
      )
        return;
      const found = shortcuts.find(({ key }) => key === event.key);
      if (found === undefined) return;
      event.preventDefault();
      found.run();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [shortcuts]);
}

export function ShortcutSheet(props: {
  readonly shortcuts: readonly Shortcut[];
  readonly isOpen: boolean;
  readonly onClose: () => void;
}): JSX.Element {
  const groups = [...new Set(props.shortcuts.map(({ group }) => group))];
  return (
    <Dialog title="Keyboard shortcuts" isOpen={props.isOpen} onClose={props.onClose}>
      <div class="shortcuts">
        {groups.map((group) => (
          <section key={group}>
            <h3>{group}</h3>
            <dl>
              {props.shortcuts
                .filter((shortcut) => shortcut.group === group)
                .map(({ key, text }) => (
                  <div key={key}>
                    <dt>
                      <kbd>{key}</kbd>
                    </dt>
                    <dd>{text}</dd>
                  </div>
                ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}

function isBusy(target: EventTarget | null): boolean {
  if (document.querySelector("dialog[open], .menu") !== null) return true;
  if (!(target instanceof HTMLElement)) return false;
  const isText =
    target instanceof HTMLInputElement && !["range", "radio", "checkbox"].includes(target.type);
  return (
    isText ||
    target instanceof HTMLTextAreaElement ||
    target instanceof HTMLSelectElement ||
    target.isContentEditable
  );
}
