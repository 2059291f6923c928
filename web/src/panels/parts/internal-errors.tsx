/** Faults of Epochal itself in the run in focus; nothing is shown where there is none. */

import type { JSX } from "preact";

import type { Page } from "../../state/page.ts";

export function InternalErrors({ page }: { readonly page: Page }): JSX.Element | null {
  const errors = page.findings.internalErrors.value;
  if (errors.length === 0) return null;
  const total = errors.reduce((sum, { count }) => sum + count, 0);
  return (
    <section class="card internal-errors" aria-label="Internal errors">
      <header class="card-head"><h3>Epochal itself had {total === 1 ? "an internal error" : `${total} internal errors`}</h3></header>
      <p class="card-empty">The record of the run is not affected. The log has the tracebacks; <code>epochal doctor --json</code> prints them for a report.</p>
      <ul>
        {errors.map(({ member, reason, count }) => <li key={member}><b>{member}</b>{count > 1 ? ` (${count} times)` : ""}: {reason}</li>)}
      </ul>
    </section>
  );
}
