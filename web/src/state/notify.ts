/** Notifications of the browser when a run ends, if the person asked for them and the browser allows it. */

import { signal } from "@preact/signals";

import type { Update } from "../source/source.ts";
import type { RunRow } from "../wire.ts";
import { isEnded } from "./run-rows.ts";
import { store, stored } from "./storage.ts";

export function createNotifier(onRefused: (sentence: string) => void) {
  const isPossible = typeof Notification !== "undefined" && window.isSecureContext;
  const isOn = signal(
    isPossible && Notification.permission === "granted" && stored("notify") === "1",
  );
  /** By run: the attempt whose end was told. Two events and a list may tell of the same end, a list that was asked for earlier after them. */
  const told = new Map<string, number>();
  const tell = (row: RunRow): void => {
    if (told.get(row.id) === row.attempts) return;
    told.set(row.id, row.attempts);
    const body =
      row.status.reason ?? (row.step === null ? row.project : `${row.project}, step ${row.step}`);
    new Notification(`${row.name}: ${row.status.text}`, { body, tag: row.id });
  };
  /** Look whether runs have ended; `before` is a row until now. */
  const compare = (rows: Iterable<RunRow>, before: (id: string) => RunRow | undefined): void => {
    if (!isOn.peek()) return;
    for (const row of rows) {
      const known = before(row.id);
      if (known !== undefined && !isEnded(known) && isEnded(row)) tell(row);
    }
  };
  return {
    isOn,
    /** For rows of a list: a run may have ended between its answer and the opening of the event stream. */
    compare,
    /** Why there can be no notifications; null where there can. */
    obstacle: isPossible ? null : "needs https, or this machine's own address",
    /** Ask the browser for leave, or stop. */
    async toggle(): Promise<void> {
      if (isOn.value) {
        isOn.value = false;
        store("notify", "0");
        return;
      }
      const answer = isPossible ? await Notification.requestPermission() : "denied";
      isOn.value = answer === "granted";
      store("notify", isOn.value ? "1" : "0");
      if (!isOn.value)
        onRefused(
          "The browser does not allow notifications of this page: its settings for this site do.",
        );
    },
    apply: (update: Update, before: (id: string) => RunRow | undefined): void =>
      compare(rowsOf(update), before),
  };
}

function rowsOf(update: Update): readonly RunRow[] {
  if (update.type === "status") return [update.row];
  return update.type === "runs" ? update.changed : [];
}
