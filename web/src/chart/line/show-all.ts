/** The note that lines were clipped, as a button: a click asks for the whole range. */

import { element } from "../tooltip.ts";
import { hiddenBox } from "./scene.ts";
import type { Scene } from "./scene.ts";

export interface ShowAll {
  /** Lay it over the note in the picture; away where nothing was clipped or nobody listens. */
  place(scene: Scene, isHeard: boolean): void;
}

export function createShowAll(host: HTMLElement, show: () => void): ShowAll {
  const button = element("button", "chart-show-all");
  button.setAttribute("type", "button");
  button.title = "Show all values";
  button.hidden = true;
  button.addEventListener("click", show);
  host.append(button);
  return {
    place(scene, isHeard) {
      button.hidden = !isHeard || scene.beyond.length === 0;
      if (button.hidden) return;
      const { left, top, width, height } = hiddenBox(scene);
      Object.assign(button.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
      button.title = `Beyond the axis: ${scene.beyond.join(", ")}. Show all values`;
      button.setAttribute("aria-label", button.title);
    },
  };
}
