/** Colours for amounts: one hue from the page's surface to its opposite, so that more is always more visible. */

const SEQUENTIAL = {
  light: ["#f3f6fb", "#c9d8f2", "#8fb0e6", "#4f7bd2", "#274a9f", "#13265c"],
  dark: ["#1a1f28", "#1f3159", "#2f52a0", "#5680da", "#97b7f5", "#e3ecff"],
} as const;

const DIVERGING = {
  light: ["#1f4fb0", "#7ea3dd", "#f4f4f2", "#e39a72", "#a8400f"],
  dark: ["#8fb4ff", "#3f65b0", "#20242b", "#a8562a", "#ffad7a"],
} as const;

/** Like viridis: hue and lightness change evenly, and the last colour stands out most from the page. The first is still readable on it. */
const QUALITY = {
  light: ["#a3b84a", "#55a868", "#2a8f8b", "#31688e", "#443983", "#3b0a5a"],
  dark: ["#5f549f", "#4371a8", "#2b9a97", "#4dbd72", "#a6d93f", "#fde725"],
} as const;

const RAMPS = { sequential: SEQUENTIAL, diverging: DIVERGING, quality: QUALITY } as const;

export type RampKind = keyof typeof RAMPS;

/** Colour of a share between 0 and 1; beyond them it is the nearer end. */
export function rampColor(share: number, kind: RampKind, isDark: boolean): string {
  const stops = RAMPS[kind][isDark ? "dark" : "light"];
  const at = Math.max(0, Math.min(1, share)) * (stops.length - 1);
  const below = Math.min(stops.length - 2, Math.floor(at));
  return mixed(stops[below]!, stops[below + 1]!, at - below);
}

/** A table of `size` colours from one end to the other; looking up is cheaper than mixing for every cell. */
export function rampTable(kind: RampKind, isDark: boolean, size = 128): string[] {
  return Array.from({ length: size }, (_, index) => rampColor(index / (size - 1), kind, isDark));
}

/** A colour between two others. */
function mixed(from: string, to: string, share: number): string {
  const parts = [1, 3, 5].map((at) => {
    const [low, high] = [parseInt(from.slice(at, at + 2), 16), parseInt(to.slice(at, at + 2), 16)];
    return Math.round(low + (high - low) * share)
      .toString(16)
      .padStart(2, "0");
  });
  return `#${parts.join("")}`;
}
