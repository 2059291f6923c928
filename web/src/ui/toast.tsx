/** Short news at the edge of the page that leave by themselves. */

import { signal } from "@preact/signals";
import type { JSX } from "preact";

export interface Toast {
  readonly id: number;
  readonly text: string;
  readonly kind: "info" | "good" | "critical";
  readonly action?: ToastAction;
}

export interface ToastAction {
  readonly label: string;
  readonly run: () => void;
}

export type Toasts = ReturnType<typeof createToasts>;

const SHOWN_MS = 5000;
/** Time to read what happened, and to take it back. */
const ACTION_MS = 15000;
const MOST = 4;

/** A list of toasts; what is critical stays until it is dismissed. */
export function createToasts() {
  const shown = signal<readonly Toast[]>([]);
  let lastId = 0;
  const dismiss = (id: number): void => {
    shown.value = shown.value.filter((toast) => toast.id !== id);
  };
  const show = (text: string, kind: Toast["kind"] = "info", action?: ToastAction): void => {
    const id = ++lastId;
    shown.value = [
      ...shown.value,
      { id, text, kind, ...(action === undefined ? {} : { action }) },
    ].slice(-MOST);
    if (kind !== "critical")
      setTimeout(() => dismiss(id), action === undefined ? SHOWN_MS : ACTION_MS);
  };
  return {
    shown,
    dismiss,
    show,
    /** Do something, and explain it if it fails. */
    attempt: (action: () => Promise<unknown>): Promise<void> =>
      action().then(
        () => undefined,
        (error: unknown) =>
          show(error instanceof Error ? error.message : String(error), "critical"),
      ),
  };
}

export function ToastList({ toasts }: { readonly toasts: Toasts }): JSX.Element {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.shown.value.map(({ id, text, kind, action }) => (
        <div key={id} class={`toast is-${kind}`}>
          <span class="toast-text">{text}</span>
          {action !== undefined && (
            <button
              type="button"
              class="button"
              onClick={() => {
                toasts.dismiss(id);
                action.run();
              }}
            >
              {action.label}
            </button>
          )}
          <button
            type="button"
            class="button is-quiet"
            aria-label="Dismiss"
            onClick={() => toasts.dismiss(id)}
          >
            ✕
          </button>
        </div>
      ))}
    </div>
  );
}
