/** A dialog that sets the ends of a chart's axes by hand. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { NO_LIMITS } from "../../chart/index.ts";
import type { Metric } from "../../state/metrics.ts";
import type { Page } from "../../state/page.ts";
import { endOf, limitsOf, withLimits } from "../../state/y-limits.ts";
import { Dialog } from "../../ui/dialog.tsx";

export interface LimitsDialogProps {
  readonly page: Page;
  readonly metric: Metric;
  readonly onClose: () => void;
}

export function LimitsDialog({ page: { view }, metric: { name }, onClose }: LimitsDialogProps): JSX.Element {
  const before = limitsOf(view.yLimits.value, name);
  const zoom = view.zoom.value;
  const [texts, setTexts] = useState({ min: textOf(before.min), max: textOf(before.max), from: textOf(zoom?.min), to: textOf(zoom?.max) });
  const isNumber = (text: string): boolean => text.trim() === "" || endOf(text) !== null;
  const [min, max, from, to] = [endOf(texts.min), endOf(texts.max), endOf(texts.from), endOf(texts.to)];
  const wrong = !Object.values(texts).every(isNumber) ? "Write numbers such as 0.5 or 1e-3, or leave a field empty."
    : min !== null && max !== null && min >= max ? "The smallest y must be below the largest."
    : from !== null && to !== null && from >= to ? "The first x must be below the last."
    : (from === null) !== (to === null) ? "Give both ends of x, or neither." : null;
  const field = (key: keyof typeof texts, label: string): JSX.Element => (
    <label>{label} <input type="text" inputMode="decimal" value={texts[key]} placeholder="from the data" aria-invalid={!isNumber(texts[key])}
      onInput={(event) => setTexts({ ...texts, [key]: event.currentTarget.value })} /></label>
  );
  const apply = (): void => {
    view.yLimits.value = withLimits(view.yLimits.value, name, { min, max });
    if (from === null || to === null) view.zoom.value = null;
    else view.zoom.value = { x: zoom?.x ?? view.x.value, min: from, max: to };
    onClose();
  };
  return (
    <Dialog title={`Limits of ${name}`} isOpen onClose={onClose}>
      <form class="limits" onSubmit={(event) => {
        event.preventDefault();
        if (wrong === null) apply();
      }}>
        <div class="limits-row">{field("min", "Smallest y")}{field("max", "Largest y")}</div>
        <div class="limits-row">{field("from", "First x")}{field("to", "Last x")}</div>
        <p class="card-note" role="status">{wrong ?? "The limits of y are those of this chart; x is the zoom of all charts."}</p>
        <div class="limits-row">
          <button type="submit" class="button is-primary" disabled={wrong !== null}>Set</button>
          <button type="button" class="button" onClick={() => {
            view.yLimits.value = withLimits(view.yLimits.value, name, NO_LIMITS);
            view.zoom.value = null;
            onClose();
          }}>From the data</button>
        </div>
      </form>
    </Dialog>
  );
}

function textOf(value: number | null | undefined): string {
  return value === null || value === undefined ? "" : String(Number(value.toPrecision(6)));
}
