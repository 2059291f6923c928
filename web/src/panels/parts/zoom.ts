/** Where a picture lies in its frame: how far its centre is from that of the frame, in pixels. */

export interface Placement {
  readonly scale: number;
  readonly x: number;
  readonly y: number;
}

export const WHOLE: Placement = { scale: 1, x: 0, y: 0 };
export const ZOOM_STEP = 1.25;
const LEAST = 0.25;
const MOST = 40;

/** Zoom so that the point under the pointer stays where it is. */
export function zoomedAt({ scale, x, y }: Placement, factor: number, at: { readonly x: number; readonly y: number }): Placement {
  const next = Math.max(LEAST, Math.min(MOST, scale * factor));
  const moved = next / scale;
  return { scale: next, x: at.x - (at.x - x) * moved, y: at.y - (at.y - y) * moved };
}

/** The size a picture says it has, by its `viewBox` or its width and height; null when it says none. */
export function picturedSize(svg: string): { readonly width: number; readonly height: number } | null {
  const head = /<svg\b[^>]*>/i.exec(svg)?.[0] ?? "";
  const box = /\bviewBox\s*=\s*["']\s*[-\d.e+]+[\s,]+[-\d.e+]+[\s,]+([\d.e+]+)[\s,]+([\d.e+]+)/i.exec(head);
  const plain = [/\bwidth\s*=\s*["']([\d.]+)/i.exec(head)?.[1], /\bheight\s*=\s*["']([\d.]+)/i.exec(head)?.[1]];
  const [width, height] = (box === null ? plain : [box[1], box[2]]).map(Number);
  return width !== undefined && height !== undefined && width > 0 && height > 0 ? { width, height } : null;
}
