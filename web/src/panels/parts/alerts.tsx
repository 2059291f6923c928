/** What the program itself asked to be told with `run.alert`, newest first; nothing where it asked for nothing. */

import type { JSX } from "preact";

import { formatWallClock } from "../../chart/index.ts";
import type { Page } from "../../state/page.ts";
import { useEntries } from "../../state/queries.ts";
import type { RunRow } from "../../wire.ts";

const MOST = 50;

export function Alerts({ page, run }: { readonly page: Page; readonly run: RunRow }): JSX.Element | null {
  const { list } = useEntries(page, "log", run.id, { kind: ["event"], name: "alert", limit: MOST });
  const alerts = [...(list?.entries ?? [])].reverse();
  if (alerts.length === 0) return null;
  return (
    <section class="card internal-errors" aria-label="Alerts">
      <header class="card-head"><h2>Alerts of the program</h2></header>
      <ul>
        {alerts.map(({ position, t, step, record }) => (
          <li key={position}>
            <b>{String(record?.["title"] ?? "alert")}</b> {String(record?.["text"] ?? "")}{" "}
            <span class="card-note">{[String(record?.["level"] ?? ""), step === null ? "" : `step ${step}`, t === null ? "" : formatWallClock(t)].filter((word) => word !== "").join(" · ")}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
