/** The picture of the model. It is an image, so that nothing in it can run or load anything. */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { formatWallClock, formatWhole } from "../chart/index.ts";
import { useEntries } from "../state/queries.ts";
import { valueText } from "../state/config.ts";
import type { Page } from "../state/page.ts";
import { download } from "../ui/download.ts";
import { Empty } from "../ui/empty.tsx";
import type { EntryRow, RunRow } from "../wire.ts";
import { picturedSize, zoomedAt } from "./graph-view.ts";
import type { Placement } from "./graph-view.ts";
import type { Panel, PanelProps } from "./panel.ts";
import { FocusedRun, RunPicker } from "./parts/run-picker.tsx";
import { Section } from "./parts/section.tsx";
import "./graph.css";

const WHOLE: Placement = { scale: 1, x: 0, y: 0 };
const ZOOM_STEP = 1.25;

export const panel: Panel = { order: 100, id: "graph", title: "Graph", shortcut: "g", component: Graph };

function Graph({ page }: PanelProps): JSX.Element {
  return <FocusedRun page={page}>{(run) => <GraphOf key={run.id} page={page} run={run} />}</FocusedRun>;
}

function GraphOf({ page, run }: { readonly page: Page; readonly run: RunRow }): JSX.Element {
  const { list, problem } = useEntries(page, "graph", run.id);
  const newest = useMemo(() => newestByName(list?.entries ?? []), [list]);
  return (
    <div class="pane">
      <div class="pane-bar"><RunPicker page={page} /></div>
      {problem !== null && <p role="status">{problem}</p>}
      {list !== null && newest.length === 0 && <Empty title="This run has no graph of its model" code="monitor.watch(model)">Watch a model to record its graph.</Empty>}
      {newest.map((entry) => <PictureSection key={entry.name ?? ""} page={page} entry={entry} />)}
    </div>
  );
}

function PictureSection({ page, entry }: { readonly page: Page; readonly entry: EntryRow }): JSX.Element {
  const title = entry.name ?? "model";
  const folded = page.view.text(`graph-${title}`);
  const svg = entry.record?.["svg"];
  const isOpen = folded.value !== "0";
  const tools = (
    <>
      {typeof svg === "string" && <button type="button" class="button is-quiet" onClick={() => download(`${title}.svg`, svg, "image/svg+xml")}>SVG</button>}
      <button type="button" class="button is-quiet" aria-expanded={isOpen} onClick={() => (folded.value = isOpen ? "0" : "")}>{isOpen ? "Hide" : "Show"}</button>
    </>
  );
  return (
    <Section title={title} note={entry.t === null ? undefined : formatWallClock(entry.t)} tools={tools}>
      {isOpen && (
        <div class="section-body">
          {typeof svg === "string" ? <Picture svg={svg} title={title} /> : <p>This record has no graph.</p>}
          <Facts record={entry.record ?? {}} />
        </div>
      )}
    </Section>
  );
}

/** Pan by dragging, zoom with the wheel or the keys + and −, double click for the whole. */
function Picture({ svg, title }: { readonly svg: string; readonly title: string }): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const [place, setPlace] = useState<Placement>(WHOLE);
  const [grip, setGrip] = useState<{ readonly x: number; readonly y: number } | null>(null);
  const address = useMemo(() => `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`, [svg]);
  const size = useMemo(() => picturedSize(svg), [svg]);
  const zoom = (factor: number, at?: { readonly x: number; readonly y: number }): void => {
    const box = frame.current!.getBoundingClientRect();
    setPlace((before) => zoomedAt(before, factor, at ?? { x: box.width / 2, y: box.height / 2 }));
  };
  useEffect(() => {
    const element = frame.current!;
    const wheel = (event: WheelEvent): void => {
      // A page that is scrolled past is not to be caught by the picture.
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== element) return;
      event.preventDefault();
      const box = element.getBoundingClientRect();
      zoom(event.deltaY < 0 ? ZOOM_STEP : 1 / ZOOM_STEP, { x: event.clientX - box.left, y: event.clientY - box.top });
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  }, []);
  const onKeyDown = (event: KeyboardEvent): void => {
    const moves: Record<string, () => void> = {
      "+": () => zoom(ZOOM_STEP), "=": () => zoom(ZOOM_STEP), "-": () => zoom(1 / ZOOM_STEP), "0": () => setPlace(WHOLE),
      ArrowLeft: () => setPlace((at) => ({ ...at, x: at.x + 40 })), ArrowRight: () => setPlace((at) => ({ ...at, x: at.x - 40 })),
      ArrowUp: () => setPlace((at) => ({ ...at, y: at.y + 40 })), ArrowDown: () => setPlace((at) => ({ ...at, y: at.y - 40 })),
    };
    const move = moves[event.key];
    if (move === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    move();
  };
  return (
    <>
      <div ref={frame} class={`picture${grip === null ? "" : " is-held"}`} tabIndex={0} role="group" aria-label={`Picture of ${title}: drag to move, plus and minus to zoom, 0 for the whole`}
        style={{ aspectRatio: size === null ? "16 / 9" : `${size.width} / ${size.height}` }}
        onKeyDown={onKeyDown} onDblClick={() => setPlace(WHOLE)}
        onPointerDown={(event) => {
          if (event.pointerType === "touch" && place.scale === 1) return;
          event.currentTarget.setPointerCapture(event.pointerId);
          setGrip({ x: event.clientX - place.x, y: event.clientY - place.y });
        }}
        onPointerMove={(event) => grip !== null && setPlace({ ...place, x: event.clientX - grip.x, y: event.clientY - grip.y })}
        onPointerUp={() => setGrip(null)} onPointerCancel={() => setGrip(null)}>
        <img src={address} alt={`Picture of ${title}`} draggable={false} style={{ transform: `translate(${place.x}px, ${place.y}px) scale(${place.scale})` }} />
      </div>
      <div class="picture-tools">
        <button type="button" class="button" aria-label="Zoom in" onClick={() => zoom(ZOOM_STEP)}>+</button>
        <button type="button" class="button" aria-label="Zoom out" onClick={() => zoom(1 / ZOOM_STEP)}>−</button>
        <button type="button" class="button" onClick={() => setPlace(WHOLE)}>Whole</button>
        <span class="section-note">{Math.round(place.scale * 100)}&nbsp;%</span>
      </div>
    </>
  );
}

function Facts({ record }: { readonly record: Readonly<Record<string, unknown>> }): JSX.Element {
  const facts = Object.entries(record).filter(([key]) => !["log", "t", "step", "name", "svg", "dot"].includes(key));
  return (
    <dl class="facts">
      {facts.map(([key, value]) => (
        <div key={key} style={{ display: "contents" }}>
          <dt>{key}</dt>
          <dd>{typeof value === "number" ? formatWhole(value) : valueText(value)}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A picture is recorded anew when the model or its timings change; of each name the newest counts. */
function newestByName(entries: readonly EntryRow[]): readonly EntryRow[] {
  const byName = new Map<string, EntryRow>();
  for (const entry of entries) byName.set(entry.name ?? "", entry);
  return [...byName.values()];
}
