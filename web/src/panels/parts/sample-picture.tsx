/** A picture with its boxes and masks, and what chooses which of them are shown. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { formatNumber } from "../../chart/index.ts";
import { slotColor } from "../../chart/palette.ts";
import type { Page } from "../../state/page.ts";
import { Slider } from "../../ui/slider.tsx";
import type { Box, Classes, Mask, Sample } from "./sample-record.ts";

/** Narrower pictures are shown larger than they are, each of their pixels as a square. */
const SMALL_PX = 200;
const MASK_ALPHA = 140;
const DASHES = ["none", "6 4", "2 3"];

interface Shown {
  readonly minScore: number;
  readonly has: (group: string, label?: string) => boolean;
  readonly toggle: (group: string, label?: string) => void;
}

/** Which boxes and masks are shown: those of groups and classes that nobody switched off. */
function shownOf(page: Page): Shown {
  const hidden = page.view.text("sample-hidden");
  const keys = hidden.value === "" ? [] : hidden.value.split("\n");
  const keyOf = (group: string, label?: string): string =>
    JSON.stringify(label === undefined ? [group] : [group, label]);
  const has = (group: string, label?: string): boolean =>
    !keys.includes(keyOf(group)) && (label === undefined || !keys.includes(keyOf(group, label)));
  return {
    minScore: Number(page.view.text("sample-score", "0").value) || 0,
    has,
    toggle: (group, label) => {
      const key = keyOf(group, label);
      hidden.value = (keys.includes(key) ? keys.filter((one) => one !== key) : [...keys, key]).join(
        "\n",
      );
    },
  };
}

/** The bright shade in both themes: what is below is a picture. */
function colorOf({ slots }: Classes, label: string): string {
  return slotColor(slots.get(label) ?? 0, true);
}

/** Switches for each group and class, and the lowest score. */
export function Legend({
  page,
  classes,
}: {
  readonly page: Page;
  readonly classes: Classes;
}): JSX.Element | null {
  const { has, toggle, minScore } = shownOf(page);
  const score = page.view.text("sample-score", "0");
  if (classes.groups.size === 0) return null;
  return (
    <div class="sample-legend" role="group" aria-label="Boxes and masks">
      {[...classes.groups].map(([group, labels]) => (
        <span key={group} class="sample-group">
          <button
            type="button"
            class="sample-class"
            aria-pressed={has(group)}
            onClick={() => toggle(group)}
          >
            {group || "boxes and masks"}
          </button>
          {labels.map((label) => (
            <button
              key={label}
              type="button"
              class="sample-class"
              aria-pressed={has(group, label)}
              disabled={!has(group)}
              onClick={() => toggle(group, label)}
            >
              <i style={{ background: colorOf(classes, label) }} />
              {label || "no label"}
            </button>
          ))}
        </span>
      ))}
      {classes.hasScores && (
        <Slider
          label="Score at least"
          min={0}
          max={1}
          step={0.01}
          value={minScore}
          text={formatNumber(minScore)}
          onChange={(value) => (score.value = String(value))}
        />
      )}
    </div>
  );
}

/** Show each pixel of a small picture or video as a square. */
export function sharpen({
  currentTarget: shown,
}: {
  readonly currentTarget: HTMLImageElement | HTMLVideoElement;
}): void {
  if (("naturalWidth" in shown ? shown.naturalWidth : shown.videoWidth) < SMALL_PX)
    shown.style.imageRendering = "pixelated";
}

export interface PictureProps {
  readonly page: Page;
  readonly run: string;
  readonly sample: Sample;
  readonly classes: Classes;
}

export function Picture({ page, run, sample, classes }: PictureProps): JSX.Element {
  const [loaded, setLoaded] = useState<Sample["size"]>(null);
  const [isBroken, setBroken] = useState(false);
  const { has, minScore } = shownOf(page);
  const image = useRef<HTMLImageElement>(null);
  // A browser goes on loading what is gone, before what is there.
  useEffect(() => {
    const element = image.current;
    return () => element?.removeAttribute("src");
  }, []);
  const size = sample.size ?? loaded;
  if (isBroken)
    return (
      <span class="sample-problem">
        This picture cannot be shown: the file is damaged, or your browser does not know its format.
      </span>
    );
  const boxes = sample.boxes.filter(
    ({ group, label, score }) => has(group, label) && (score ?? 1) >= minScore,
  );
  return (
    <span
      class={`sample-picture${size !== null && size.width < SMALL_PX ? " is-small" : ""}`}
      style={{ "--ratio": size === null ? "1.5" : String(size.width / size.height) }}
    >
      <img
        ref={image}
        src={page.source.blobUrl(run, sample.file)}
        alt={sample.caption || sample.name}
        loading="lazy"
        draggable={false}
        onError={() => setBroken(true)}
        onLoad={({ currentTarget: { naturalWidth: width, naturalHeight: height } }) =>
          width > 0 && setLoaded({ width, height })
        }
      />
      {sample.masks.map(
        (mask, index) =>
          has(mask.group) && (
            <MaskLayer
              key={mask.group + mask.file}
              page={page}
              run={run}
              mask={mask}
              classes={classes}
              isOutline={index > 0}
              isOn={(label) => has(mask.group, label)}
            />
          ),
      )}
      {boxes.length > 0 && <BoxLayer boxes={boxes} classes={classes} />}
    </span>
  );
}

function BoxLayer({
  boxes,
  classes,
}: {
  readonly boxes: readonly Box[];
  readonly classes: Classes;
}): JSX.Element {
  const groups = [...classes.groups.keys()];
  // Inside the picture; labels of another group are at the other edge, so that truth and prediction can both be read.
  const placeOf = ({ group, x0, y0, x1, y1 }: Box): Record<string, string> => ({
    top: `clamp(0px, ${groups.indexOf(group) % 2 === 1 ? `${y1 * 100}%` : `${y0 * 100}% - 15px`}, 100% - 15px)`,
    ...(x0 < 0.5
      ? { left: `max(0px, ${x0 * 100}%)`, maxWidth: `min(100%, ${(1 - x0) * 100}%)` }
      : { right: `max(0px, ${(1 - x1) * 100}%)`, maxWidth: `min(100%, ${x1 * 100}%)` }),
  });
  return (
    <>
      <svg class="sample-layer" viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true">
        {boxes.map((box, index) => (
          <rect
            key={index}
            x={box.x0}
            y={box.y0}
            width={Math.max(0, box.x1 - box.x0)}
            height={Math.max(0, box.y1 - box.y0)}
            fill="none"
            vector-effect="non-scaling-stroke"
            stroke-width={2}
            stroke-dasharray={DASHES[groups.indexOf(box.group) % DASHES.length]}
            style={{ stroke: colorOf(classes, box.label) }}
          />
        ))}
      </svg>
      <span class="sample-layer">
        {boxes.map((box, index) => (
          <span
            key={index}
            class="sample-box"
            style={{ ...placeOf(box), background: colorOf(classes, box.label) }}
          >
            {[box.label, box.score === null ? "" : box.score.toFixed(2)].join(" ").trim()}
          </span>
        ))}
      </span>
    </>
  );
}

interface MaskLayerProps {
  readonly page: Page;
  readonly run: string;
  readonly mask: Mask;
  readonly classes: Classes;
  /** Of a second mask only the outline is drawn, so that truth and prediction can both be seen. */
  readonly isOutline: boolean;
  readonly isOn: (label: string) => boolean;
}

/** Each class in its colour; where the mask names no classes, each number in one. Number 0 without a name is the background. */
function MaskLayer({ page, run, mask, classes, isOutline, isOn }: MaskLayerProps): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const address = page.source.blobUrl(run, mask.file);
  const hasLabels = Object.keys(mask.labels).length > 0;
  const slotOf = (id: number): number | null => {
    const label = mask.labels[id];
    if (label === undefined) return hasLabels || id === 0 ? null : id;
    return isOn(label) ? (classes.slots.get(label) ?? id) : null;
  };
  const slots = Array.from({ length: 256 }, (_, id) => slotOf(id));
  useEffect(() => {
    const image = new Image();
    image.onload = () => canvas.current !== null && paint(canvas.current, image, slots, isOutline);
    image.src = address;
    return () => {
      image.onload = null;
      image.src = "";
    };
  }, [address, slots.join()]);
  // biome-ignore lint/a11y/noAriaHiddenOnFocusable: a canvas takes no focus
  return <canvas ref={canvas} class="sample-layer" aria-hidden="true" />;
}

function paint(
  canvas: HTMLCanvasElement,
  image: HTMLImageElement,
  slots: readonly (number | null)[],
  isOutline: boolean,
): void {
  canvas.width = image.naturalWidth;
  canvas.height = image.naturalHeight;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (context === null || canvas.width === 0) return;
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height);
  const colors = new Uint32Array(
    slots.map((slot) => (slot === null ? 0 : littleEndian(slotColor(slot, true)))),
  );
  const words = new Uint32Array(pixels.data.buffer);
  const ids = words.map((word) => word & 255);
  const thick = Math.ceil(canvas.width / 200);
  const isInside = (at: number): boolean =>
    [-thick, thick, -thick * canvas.width, thick * canvas.width].every(
      (by) => (ids[at + by] ?? ids[at]) === ids[at],
    );
  ids.forEach(
    (id, at) =>
      (words[at] =
        colors[id]! === 0 || !isOutline
          ? colors[id]!
          : isInside(at)
            ? 0
            : (colors[id]! | 0xff000000) >>> 0),
  );
  context.putImageData(pixels, 0, 0);
}

function littleEndian(color: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16)) as [
    number,
    number,
    number,
  ];
  return ((MASK_ALPHA << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}
