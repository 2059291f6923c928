/** A dialog that gives a run a colour of its own. */

import type { JSX } from "preact";

import { PALETTE, slotCss } from "../chart/index.ts";
import { withColor } from "../state/colors.ts";
import type { Page } from "../state/page.ts";
import { Dialog } from "../ui/dialog.tsx";

export function RunColor({ page }: { readonly page: Page }): JSX.Element {
  const { coloring, view, runs } = page;
  const id = coloring.value;
  const close = (): void => {
    coloring.value = null;
  };
  const choose = (color: string | null): void => {
    if (id !== null) view.colors.value = withColor(view.colors.value, id, color);
  };
  const chosen = view.colors.value.find((one) => one.startsWith(`${id}:`))?.slice(-6);
  return (
    <Dialog title={id === null ? "" : `Colour of ${runs.label(id)}`} isOpen={id !== null} onClose={close}>
      {id !== null && (
        <div class="colors">
          <div class="colors-row" role="group" aria-label="Colours">
            {PALETTE.map(({ light }, slot) => (
              <button key={light} type="button" class="colors-one" aria-label={`Colour ${slot + 1}`} aria-pressed={chosen === light.slice(1)} style={{ background: slotCss(slot) }} onClick={() => choose(light)} />
            ))}
          </div>
          <label class="check">Another colour <input type="color" value={`#${chosen ?? "3d68ca"}`} onInput={(event) => choose(event.currentTarget.value)} /></label>
          <div class="limits-row">
            <button type="button" class="button" disabled={chosen === undefined} onClick={() => choose(null)}>Automatic</button>
            <button type="button" class="button is-primary" onClick={close}>Done</button>
          </div>
          <p class="card-note">The colour is part of this page's address, so a copied link keeps it.</p>
        </div>
      )}
    </Dialog>
  );
}
