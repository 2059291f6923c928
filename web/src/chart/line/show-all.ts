/** The note that lines were clipped, as a button: a click asks for the whole range. */

import { element } from "../tooltip.ts";
import { hiddenBox } from "./drawing.ts";
import type { LineDrawing } from "./drawing.ts";

export interface ShowAll {
  /** Lay it over the note in the picture; away where nothing was clipped or nobody listens. */
  place(drawing: LineDrawing, isHeard: boolean): void;
}

export function createShowAll(host: HTMLElement, show: () => void): ShowAll {
  const button = element("button", "chart-show-all");
  button.setAttribute("type", "button");
  button.title = "Show all values";
  button.hidden = true;
  button.addEventListener("click", show);
  host.append(button);
  return {
    place(drawing, isHeard) {
      button.hidden = !isHeard || drawing.beyond.length === 0;
      if (button.hidden) return;
      const { left, top, width, height } = hiddenBox(drawing);
      Object.assign(button.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
      button.title = `Beyond the axis: ${drawing.beyond.join(", ")}. Show all values`;
      button.setAttribute("aria-label", button.title);
    },
  };
}
