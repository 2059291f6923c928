/** What a place without content says: why, and what to do next. */

import type { ComponentChildren, JSX } from "preact";

export interface EmptyProps {
  readonly title: string;
  readonly children?: ComponentChildren;
  /** A command or line of code to copy. */
  readonly code?: string;
}

export function Empty({ title, children, code }: EmptyProps): JSX.Element {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children !== undefined && <p>{children}</p>}
      {code !== undefined && (
        <pre>
          <code>{code}</code>
        </pre>
      )}
    </div>
  );
}
