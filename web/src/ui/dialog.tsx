/** A window over the page; the browser keeps the focus inside and Escape closes it. */

import type { ComponentChildren, JSX } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";

export interface DialogProps {
  readonly title: string;
  readonly isOpen: boolean;
  /** Fill the window, for a single chart. */
  readonly isFull?: boolean;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

export function Dialog({
  title,
  isOpen,
  isFull = false,
  onClose,
  children,
}: DialogProps): JSX.Element {
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  // Before the next key: who opens a dialog by keyboard goes on typing.
  useLayoutEffect(() => {
    if (!isOpen) return;
    const element = dialog.current!;
    // The browser gives the focus back when a dialog closes, but not when it is removed.
    const before = document.activeElement as HTMLElement | null;
    element.showModal();
    return () => {
      element.close();
      if (document.activeElement === document.body) before?.focus();
    };
  }, [isOpen]);
  return (
    <dialog
      ref={dialog}
      class={`dialog${isFull ? " is-full" : ""}`}
      aria-labelledby={id}
      onClose={onClose}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      {isOpen && (
        <div class="dialog-body">
          <header class="dialog-head">
            <h2 id={id}>{title}</h2>
            <button
              type="button"
              class="button is-quiet"
              aria-label="Close"
              title="Close (Esc)"
              onClick={onClose}
            >
              ✕
            </button>
          </header>
          {children}
        </div>
      )}
    </dialog>
  );
}
