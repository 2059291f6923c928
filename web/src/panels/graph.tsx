/** The picture of the model. It is an image, so that nothing in it can run or load anything. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import { formatWallClock, formatWhole } from "../chart/index.ts";
import { useEntries } from "../state/queries.ts";
import { valueText } from "../state/config.ts";
import type { Page } from "../state/page.ts";
import { download } from "../ui/download.ts";
import { Empty } from "../ui/empty.tsx";
import type { EntryRow, RunRow } from "../wire.ts";
import type { PanelProps, Section as RunSection } from "./panel.ts";
import { FocusedRun, RunPicker } from "./parts/run-picker.tsx";
import { Section } from "./parts/section.tsx";
import { picturedSize, WHOLE } from "./parts/zoom.ts";
import type { Placement } from "./parts/zoom.ts";
import { ZoomFrame, ZoomTools } from "./parts/zoom-frame.tsx";

export const section: RunSection = { order: 100, id: "graph", title: "Graph", shortcut: "g", component: Graph, hasContent: () => true };

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

function Picture({ svg, title }: { readonly svg: string; readonly title: string }): JSX.Element {
  const [place, setPlace] = useState<Placement>(WHOLE);
  const address = useMemo(() => `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`, [svg]);
  const size = useMemo(() => picturedSize(svg), [svg]);
  return (
    <>
      <ZoomFrame label={`Picture of ${title}`} place={place} onPlace={setPlace} ratio={size === null ? "16 / 9" : `${size.width} / ${size.height}`}>
        <img src={address} alt={`Picture of ${title}`} draggable={false} />
      </ZoomFrame>
      <ZoomTools place={place} onPlace={setPlace} />
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
