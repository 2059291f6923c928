/** A pen that writes SVG: real lines and text, for papers and slides. */

import type { PathSink } from "./paths.ts";
import { FONT, TEXT_SIZE } from "./renderer.ts";
import type { Box, DrawStyle, Renderer } from "./renderer.ts";

export interface SvgRenderer extends Renderer {
  /** The finished document. */
  document(): string;
}

export function svgRenderer(
  size: { readonly width: number; readonly height: number },
  background: string,
): SvgRenderer {
  const parts: string[] = [];
  let numClips = 0;
  return {
    path(ink, write) {
      const sink = svgSink();
      write(sink);
      const commands = sink.commands();
      if (commands !== "") parts.push(`<path d="${commands}"${attributes(ink)}/>`);
    },
    rect(box, ink) {
      parts.push(`<rect ${boxAttributes(box)}${attributes(ink)}/>`);
    },
    circle(x, y, radius, ink) {
      parts.push(
        `<circle cx="${short(x)}" cy="${short(y)}" r="${short(radius)}"${attributes(ink)}/>`,
      );
    },
    text(x, y, text, textStyle) {
      const anchor = { left: "start", center: "middle", right: "end" }[textStyle.align ?? "left"];
      const baseline = { top: "hanging", middle: "central", bottom: "auto" }[
        textStyle.baseline ?? "middle"
      ];
      const turn = textStyle.isVertical ? ` transform="rotate(-90 ${short(x)} ${short(y)})"` : "";
      parts.push(
        `<text x="${short(x)}" y="${short(y)}" fill="${escapeXml(textStyle.fill)}" font-size="${textStyle.size ?? TEXT_SIZE}"` +
          ` font-weight="${textStyle.weight ?? 400}" text-anchor="${anchor}" dominant-baseline="${baseline}"${turn}>` +
          `${escapeXml(text)}</text>`,
      );
    },
    clip(box, draw) {
      const id = `clip-${numClips++}`;
      parts.push(
        `<clipPath id="${id}"><rect ${boxAttributes(box)}/></clipPath><g clip-path="url(#${id})">`,
      );
      draw();
      parts.push("</g>");
    },
    document() {
      const { width, height } = size;
      return (
        `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"` +
        ` font-family="${escapeXml(FONT)}"><rect width="${width}" height="${height}" fill="${escapeXml(background)}"/>` +
        `${parts.join("")}</svg>\n`
      );
    },
  };
}

/** Collects path commands; tenths of a pixel are finer than any print of a chart. */
export function svgSink(): PathSink & { commands(): string } {
  const commands: string[] = [];
  return {
    moveTo: (x, y) => commands.push(`M${short(x)} ${short(y)}`),
    lineTo: (x, y) => commands.push(`L${short(x)} ${short(y)}`),
    closePath: () => commands.push("Z"),
    commands: () => commands.join(""),
  };
}

/** Escape text for XML, and drop the control characters XML cannot hold at all. */
export function escapeXml(text: string): string {
  return (
    text
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones to drop
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "")
      .replace(/&/g, "&amp;")
      .replace(/</g, "&lt;")
      .replace(/>/g, "&gt;")
      .replace(/"/g, "&quot;")
  );
}

function attributes(ink: DrawStyle): string {
  let text = ` fill="${escapeXml(ink.fill ?? "none")}"`;
  if (ink.stroke !== undefined) {
    text += ` stroke="${escapeXml(ink.stroke)}" stroke-width="${short(ink.width ?? 1)}" stroke-linejoin="round"`;
    if (ink.dash?.length) text += ` stroke-dasharray="${ink.dash.join(" ")}"`;
    else if (ink.cap !== "butt") text += ' stroke-linecap="round"';
  }
  if (ink.alpha !== undefined && ink.alpha !== 1) text += ` opacity="${short(ink.alpha, 3)}"`;
  return text;
}

function boxAttributes({ left, top, width, height }: Box): string {
  return `x="${short(left)}" y="${short(top)}" width="${short(Math.max(0, width))}" height="${short(Math.max(0, height))}"`;
}

function short(value: number, decimals = 1): string {
  // A far off-screen point would be unreadable to some viewers; a clip path hides it anyway.
  const bounded = Math.max(-1e6, Math.min(1e6, value));
  return String(Number(bounded.toFixed(decimals)));
}
