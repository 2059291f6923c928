/** The picture of the model. It is an image, so that nothing in it can run or load anything. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import { formatWallClock, formatWhole } from "../chart/index.ts";
import { useEntries } from "../state/queries.ts";
import { valueText } from "../state/config.ts";
import { download } from "../ui/download.ts";
import type { EntryRow } from "../wire.ts";
import type { RunSection, SectionProps } from "./panel.ts";
import { Section } from "./parts/section.tsx";
import { picturedSize, WHOLE, ZoomFrame, ZoomTools } from "./parts/zoom-frame.tsx";
import type { Placement } from "./parts/zoom-frame.tsx";

export const section: RunSection = {
  order: 70,
  id: "graph",
  title: "Graph",
  shortcut: "g",
  component: Graph,
  hasContent: (_, { recorded }) => recorded.includes("graph"),
};

function Graph({ page, run }: SectionProps): JSX.Element {
  const { list, problem } = useEntries(page, "graph", run.id);
  // A picture is recorded again when the model or its timings change; of each name the newest counts.
  const newest = useMemo(
    () => [
      ...new Map((list?.entries ?? []).map((entry) => [entry.name ?? "model", entry])).entries(),
    ],
    [list],
  );
  return (
    <div class="pane" aria-busy={list === null && problem === null}>
      {problem !== null && <p role="status">{problem}</p>}
      {newest.map(([title, entry]) => (
        <PictureSection key={title} title={title} entry={entry} />
      ))}
    </div>
  );
}

function PictureSection({
  title,
  entry: { t, record },
}: {
  readonly title: string;
  readonly entry: EntryRow;
}): JSX.Element {
  const svg = record?.svg;
  const tools = typeof svg === "string" && (
    <button
      type="button"
      class="button is-quiet"
      onClick={() => download(`${title}.svg`, svg, "image/svg+xml")}
    >
      SVG
    </button>
  );
  return (
    <Section title={title} note={t === null ? undefined : formatWallClock(t)} tools={tools}>
      <div class="section-body">
        {typeof svg === "string" ? (
          <Picture svg={svg} title={title} />
        ) : (
          <p>This record has no graph.</p>
        )}
        <Facts record={record ?? {}} />
      </div>
    </Section>
  );
}

function Picture({ svg, title }: { readonly svg: string; readonly title: string }): JSX.Element {
  const [place, setPlace] = useState<Placement>(WHOLE);
  const address = useMemo(
    () => `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`,
    [svg],
  );
  const size = useMemo(() => picturedSize(svg), [svg]);
  return (
    <>
      <ZoomFrame
        label={`Picture of ${title}`}
        place={place}
        onPlace={setPlace}
        ratio={size === null ? "16 / 9" : `${size.width} / ${size.height}`}
      >
        <img src={address} alt={title} draggable={false} />
      </ZoomFrame>
      <ZoomTools place={place} onPlace={setPlace} />
    </>
  );
}

function Facts({ record }: { readonly record: Readonly<Record<string, unknown>> }): JSX.Element {
  const facts = Object.entries(record).filter(
    ([key]) => !["log", "t", "step", "name", "svg", "dot"].includes(key),
  );
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
