/** The box beside the pointer. Text is always set as text, so a metric's name can hold anything. */

export interface TooltipRow {
  readonly label: string;
  readonly value: string;
  /** CSS colour of the swatch. */
  readonly color?: string;
  readonly note?: string;
  readonly isNearest?: boolean;
}

export interface TooltipContent {
  readonly title: string;
  readonly rows: readonly TooltipRow[];
  /** A sentence under the rows. */
  readonly foot?: string;
}

export interface Tooltip {
  /** Show content beside a point, in pixels of the root. */
  show(content: TooltipContent, x: number, y: number): void;
  hide(): void;
  destroy(): void;
}

const GAP_PX = 14;
const NARROW_PX = 600;

/** The box is made at the first `show`: most charts are never hovered. */
export function createTooltip(root: HTMLElement): Tooltip {
  let box: HTMLElement | null = null;
  return {
    show(content, x, y) {
      if (box === null) {
        box = element("div", "chart-tooltip");
        box.setAttribute("aria-hidden", "true");
        root.append(box);
      }
      box.replaceChildren(...body(content));
      box.hidden = false;
      place(box, root, x, y);
    },
    hide() {
      if (box !== null) box.hidden = true;
    },
    destroy() {
      box?.remove();
      box = null;
    },
  };
}

function body({ title, rows, foot }: TooltipContent): HTMLElement[] {
  const parts = [element("div", "chart-tooltip-title", title)];
  if (rows.length > 0) {
    const table = element("div", "chart-tooltip-rows");
    for (const row of rows) table.append(...cells(row));
    parts.push(table);
  }
  if (foot !== undefined) parts.push(element("div", "chart-tooltip-foot", foot));
  return parts;
}

function cells(row: TooltipRow): HTMLElement[] {
  const nearest = row.isNearest ? " is-nearest" : "";
  const swatch = element("i", "chart-swatch");
  if (row.color === undefined) swatch.style.visibility = "hidden";
  else swatch.style.background = row.color;
  return [
    swatch,
    element("span", `chart-tooltip-label${nearest}`, row.label),
    element("span", `chart-tooltip-value${nearest}`, row.value),
    element("span", "chart-tooltip-note", row.note ?? ""),
  ];
}

function place(box: HTMLElement, root: HTMLElement, x: number, y: number): void {
  const bounds = root.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = box;
  // A box that scrolls cuts off what stands out of it.
  const around = root.closest(".chart-scroll")?.getBoundingClientRect();
  const spaceRight = document.documentElement.clientWidth - bounds.left;
  let left = x + GAP_PX;
  if (left + width > Math.min(spaceRight, (around?.right ?? Infinity) - bounds.left) - 4)
    left = x - GAP_PX - width;
  left = Math.max(4 - bounds.left, Math.min(left, spaceRight - width - 4));
  const lowest = Math.min(window.innerHeight, around?.bottom ?? Infinity) - bounds.top - height - 4;
  // On a phone the box would cover the lines: it is under the chart where there is room, else above it.
  const beside =
    document.documentElement.clientWidth >= NARROW_PX
      ? y + GAP_PX
      : bounds.height + 4 <= lowest
        ? bounds.height + 4
        : -height - 4;
  const top = Math.max(4 - bounds.top, Math.min(beside, lowest));
  box.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
}

/** Build an element with a class and, as text only, its content. */
export function element(tag: string, className: string, text?: string): HTMLElement {
  const made = document.createElement(tag);
  made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}
