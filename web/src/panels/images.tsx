/** Images, tables, pages and other files that were recorded at steps. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import { formatBytes, formatWhole } from "../chart/index.ts";
import { useEntries } from "../state/queries.ts";
import { groupBy } from "../state/group-by.ts";
import type { Page } from "../state/page.ts";
import { Dialog } from "../ui/dialog.tsx";
import { Empty } from "../ui/empty.tsx";
import type { EntryRow, RunRow } from "../wire.ts";
import type { Panel, PanelProps } from "./panel.ts";
import { BlobTable, TABLE_TYPE } from "./parts/blob-table.tsx";
import { FocusedRun, RunPicker } from "./parts/run-picker.tsx";
import { Section } from "./parts/section.tsx";
import { parseStep, stepAtOrBefore, StepSlider, stepsOf } from "./parts/step-slider.tsx";
import "./images.css";

const MOST = 1000;
/** Narrower ones are shown larger than they are, each of their pixels as a square. */
const SMALL_PX = 200;

interface Blob {
  readonly name: string;
  readonly step: number | null;
  readonly file: string;
  readonly mediaType: string;
  readonly bytes: number | null;
  readonly caption: string | null;
}

export const panel: Panel = { order: 90, id: "images", title: "Images", shortcut: "i", component: Images };

function Images({ page }: PanelProps): JSX.Element {
  return <FocusedRun page={page}>{(run) => <ImagesOf key={run.id} page={page} run={run} />}</FocusedRun>;
}

function ImagesOf({ page, run }: { readonly page: Page; readonly run: RunRow }): JSX.Element {
  const { list, problem } = useEntries(page, "blobs", run.id, { limit: MOST, spread: true });
  const chosen = page.view.text("image-step");
  const [opened, setOpened] = useState<Blob | null>(null);
  const blobs = useMemo(() => (list?.entries ?? []).flatMap((entry) => blobOf(entry) ?? []), [list]);
  const steps = useMemo(() => stepsOf(blobs), [blobs]);
  const wanted = parseStep(chosen.value);
  if (list !== null && blobs.length === 0) {
    return (
      <div class="pane">
        <div class="pane-bar"><RunPicker page={page} /></div>
        <Empty title="This run has no images" code={'run.log_image("samples", image, step)'}>Record images to see them here by step.</Empty>
      </div>
    );
  }
  return (
    <div class="pane">
      <div class="pane-bar">
        <RunPicker page={page} />
        <StepSlider steps={steps} step={wanted} onChange={(step) => (chosen.value = step === null ? "" : String(step))} />
      </div>
      {problem !== null && <p role="status">{problem}</p>}
      <div class="pane-grid">
        {[...groupBy(blobs, ({ name }) => name)].map(([name, ofName]) => (
          <BlobSection key={name} page={page} run={run} name={name} blobs={ofName} step={wanted} onOpen={setOpened} />
        ))}
      </div>
      <Dialog title={opened?.name ?? ""} isOpen={opened !== null} isFull onClose={() => setOpened(null)}>
        {opened !== null && <img class="image is-full" src={page.source.blobUrl(run.id, opened.file)} alt={opened.caption ?? opened.name} />}
      </Dialog>
    </div>
  );
}

interface BlobSectionProps {
  readonly page: Page;
  readonly run: RunRow;
  readonly name: string;
  readonly blobs: readonly Blob[];
  readonly step: number | null;
  readonly onOpen: (blob: Blob) => void;
}

function BlobSection({ page, run, name, blobs, step, onOpen }: BlobSectionProps): JSX.Element {
  const at = stepAtOrBefore(stepsOf(blobs), step);
  const blob = at === undefined ? blobs.at(-1)! : blobs.findLast((one) => one.step === at)!;
  return (
    <Section title={name} note={blob.step === null ? undefined : `step ${formatWhole(blob.step)} · ${blobs.length} in all`}>
      <figure class="section-body">
        <BlobBody page={page} run={run} blob={blob} onOpen={onOpen} />
        {blob.caption !== null && <figcaption>{blob.caption}</figcaption>}
      </figure>
    </Section>
  );
}

interface BlobBodyProps {
  readonly page: Page;
  readonly run: RunRow;
  readonly blob: Blob;
  readonly onOpen: (blob: Blob) => void;
}

/** An image, a table, a page in a frame without scripts; a link to anything else. */
function BlobBody({ page, run, blob, onOpen }: BlobBodyProps): JSX.Element {
  const address = page.source.blobUrl(run.id, blob.file);
  if (blob.mediaType.startsWith("image/")) {
    return (
      <button type="button" class="image-button" aria-label={`Open ${blob.name}`} onClick={() => onOpen(blob)}>
        <img class="image" src={address} alt={blob.caption ?? blob.name} loading="lazy"
          onLoad={({ currentTarget: image }) => image.classList.toggle("is-small", image.naturalWidth < SMALL_PX)} />
      </button>
    );
  }
  const link = <a class="button" href={address} download={blob.file}>{blob.file}{blob.bytes === null ? "" : `, ${formatBytes(blob.bytes)}`}</a>;
  if (blob.mediaType === TABLE_TYPE) return <><BlobTable key={blob.file} page={page} run={run.id} file={blob.file} bytes={blob.bytes} />{link}</>;
  if (blob.mediaType === "text/html") return <><iframe class="blob-page" sandbox="" title={blob.name} src={address} loading="lazy" />{link}</>;
  return link;
}

function blobOf({ record, name, step }: EntryRow): Blob | null {
  const { file, media_type: mediaType, bytes, caption } = record ?? {};
  if (typeof file !== "string") return null;
  return {
    name: name ?? file,
    step,
    file,
    mediaType: typeof mediaType === "string" ? mediaType : "",
    bytes: typeof bytes === "number" ? bytes : null,
    caption: typeof caption === "string" && caption !== "" ? caption : null,
  };
}
