/** Which run the run in focus was forked from, and which were forked from it; nothing for a run without either. */

import type { JSX } from "preact";

import { formatWhole } from "../../chart/index.ts";
import type { Page } from "../../state/page.ts";
import type { RunRow } from "../../wire.ts";

export function Lineage({ page, row }: { readonly page: Page; readonly row: RunRow }): JSX.Element | null {
  const { fork } = row;
  const forks = page.runs.all.value.filter((one) => one.fork?.id === row.id);
  if (fork === null && forks.length === 0) return null;
  const link = (id: string, name: string): JSX.Element => (
    page.runs.row(id) === undefined ? <b>{name}</b> : <button type="button" class="link" onClick={() => (page.view.focus.value = id)}>{name}</button>
  );
  return (
    <section class="card lineage" aria-label="Lineage">
      <header class="card-head"><h3>Lineage</h3></header>
      {fork !== null && <p class="card-empty">Forked from {link(fork.id, fork.name)} after step {formatWhole(fork.step)}.</p>}
      {forks.length > 0 && <p class="card-empty">Forks: {forks.map(({ id, name, fork: of }, index) => <span key={id}>{index === 0 ? "" : ", "}{link(id, name)} after step {formatWhole(of!.step)}</span>)}.</p>}
    </section>
  );
}
