/** Short news at the edge of the page that leave by themselves. */

import { signal } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";
import type { JSX } from "preact";

export interface Toast {
  readonly id: number;
  readonly text: string;
  readonly kind: "info" | "good" | "critical";
}

export interface Toasts {
  readonly shown: ReadonlySignal<readonly Toast[]>;
  show(text: string, kind?: Toast["kind"]): void;
  dismiss(id: number): void;
}

const SHOWN_MS = 5000;
const MOST = 4;

/** A list of toasts; what is critical stays until it is dismissed. */
export function createToasts(): Toasts {
  const shown = signal<readonly Toast[]>([]);
  let lastId = 0;
  const dismiss = (id: number): void => {
    shown.value = shown.value.filter((toast) => toast.id !== id);
  };
  return {
    shown,
    dismiss,
    show(text, kind = "info") {
      const id = ++lastId;
      shown.value = [...shown.value, { id, text, kind }].slice(-MOST);
      if (kind !== "critical") setTimeout(() => dismiss(id), SHOWN_MS);
    },
  };
}

export function ToastList({ toasts }: { readonly toasts: Toasts }): JSX.Element {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.shown.value.map(({ id, text, kind }) => (
        <div key={id} class={`toast is-${kind}`}>
          <span>{text}</span>
          <button type="button" class="button is-quiet" aria-label="Dismiss" onClick={() => toasts.dismiss(id)}>✕</button>
        </div>
      ))}
    </div>
  );
}
