/** Notifications of the browser when a run ends, if the person asked for them and the browser allows it. */

import { signal } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";

import type { Update } from "../source/source.ts";
import type { RunRow } from "../wire.ts";
import { isEnded } from "./run-rows.ts";
import { store, stored } from "./storage.ts";

export interface Notifier {
  readonly isOn: ReadonlySignal<boolean>;
  /** Why there can be none; null where there can. */
  readonly obstacle: string | null;
  /** Ask the browser for leave, or stop. */
  toggle(): Promise<void>;
  /** Look whether a run has ended; `before` is its row until now. */
  apply(update: Update, before: (id: string) => RunRow | undefined): void;
  /** The same for newer rows: a run may have ended between the answer of the list and the opening of the event stream. */
  compare(rows: Iterable<RunRow>, before: (id: string) => RunRow | undefined): void;
}

export function createNotifier(onRefused: (sentence: string) => void): Notifier {
  const isPossible = typeof Notification !== "undefined" && window.isSecureContext;
  const isOn = signal(isPossible && Notification.permission === "granted" && stored("notify") === "1");
  const tell = (row: RunRow): void => {
    const body = row.status.reason ?? (row.step === null ? row.project : `${row.project}, step ${row.step}`);
    new Notification(`${row.name}: ${row.status.text}`, { body, tag: row.id });
  };
  const compare: Notifier["compare"] = (rows, before) => {
    if (!isOn.peek()) return;
    for (const row of rows) {
      const known = before(row.id);
      if (known !== undefined && !isEnded(known) && isEnded(row)) tell(row);
    }
  };
  return {
    isOn,
    compare,
    obstacle: isPossible ? null : "needs https, or this machine's own address",
    async toggle() {
      if (isOn.value) {
        isOn.value = false;
        store("notify", "0");
        return;
      }
      const answer = isPossible ? await Notification.requestPermission() : "denied";
      isOn.value = answer === "granted";
      store("notify", isOn.value ? "1" : "0");
      if (!isOn.value) onRefused("The browser does not allow notifications of this page: its settings for this site do.");
    },
    apply: (update, before) => compare(rowsOf(update), before),
  };
}

function rowsOf(update: Update): readonly RunRow[] {
  if (update.type === "status") return [update.row];
  return update.type === "runs" ? update.changed : [];
}
