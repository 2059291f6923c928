/** One sample, shown as what it is: a text, a picture, a table, audio, video, a page; anything else is a link. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import { formatBytes, formatWhole } from "../../chart/index.ts";
import { MISSING_BLOB } from "../../source/source.ts";
import { differences } from "../text-diff.ts";
import { MarkdownText } from "./markdown.tsx";
import { PLOTLY_TYPE, PlotlyFrame } from "./plotly-frame.tsx";
import { Picture, sharpen } from "./sample-picture.tsx";
import type { PictureProps } from "./sample-picture.tsx";
import { SampleTable, TABLE_TYPE } from "./sample-table.tsx";
import "./sample-body.css";

export const LEFT_OUT = "This sample is not in the archive, because its file did not fit.";

export interface SampleBodyProps extends PictureProps {
  /** The text of another run or step, which the differences are marked against. */
  readonly base?: string | null;
  readonly onOpen?: (() => void) | undefined;
}

export function SampleBody(props: SampleBodyProps): JSX.Element {
  const { sample } = props;
  const notes = [
    sample.caption,
    sample.frames > 1 ? `${formatWhole(sample.frames)} frames` : "",
  ].filter((note) => note !== "");
  return (
    <figure class="sample">
      {sample.text === null ? (
        <File {...props} />
      ) : sample.isMarkdown ? (
        <Markdown text={sample.text} />
      ) : (
        <Text text={sample.text} base={props.base ?? null} />
      )}
      {notes.length > 0 && <figcaption>{notes.join(" · ")}</figcaption>}
    </figure>
  );
}

function Markdown({ text }: { readonly text: string }): JSX.Element {
  const [isPlain, setPlain] = useState(false);
  const content = useMemo(
    () => <MarkdownText text={text} onPlain={() => setPlain(true)} />,
    [text],
  );
  return isPlain ? <Text text={text} base={null} /> : content;
}

function Text({
  text,
  base,
}: {
  readonly text: string;
  readonly base: string | null;
}): JSX.Element {
  const pieces = useMemo(() => differences(base ?? text, text), [text, base]);
  return (
    <pre class="sample-text" tabIndex={0}>
      {pieces.map(({ text: words, isNew }, index) =>
        isNew ? <mark key={index}>{words}</mark> : words,
      )}
    </pre>
  );
}

function File(props: SampleBodyProps): JSX.Element {
  const {
    page,
    run,
    sample: { name, file, mediaType, bytes, chart },
    onOpen,
  } = props;
  const address = page.source.blobUrl(run, file);
  if (address === MISSING_BLOB) return <p class="sample-problem">{LEFT_OUT}</p>;
  const kind = mediaType.split("/")[0];
  if (kind === "image") {
    const picture = <Picture key={file} {...props} />;
    return onOpen === undefined ? (
      picture
    ) : (
      <button type="button" class="sample-open" onClick={onOpen}>
        <span class="visually-hidden">Open {name}</span>
        {picture}
      </button>
    );
  }
  if (kind === "audio") return <Audio key={file} address={address} name={name} />;
  if (kind === "video")
    return (
      <video
        key={file}
        class="sample-video"
        controls
        loop
        muted
        playsInline
        preload="metadata"
        src={address}
        aria-label={name}
        onLoadedMetadata={sharpen}
      />
    );
  if (mediaType === TABLE_TYPE)
    return (
      <SampleTable page={page} run={run} file={file} bytes={bytes} name={name} chart={chart} />
    );
  const link = (
    <FileLink
      address={address}
      file={name.replaceAll("/", "-") + file.replace(/^[^.]*/, "")}
      name="Download"
      bytes={bytes}
    />
  );
  if (mediaType === PLOTLY_TYPE)
    return (
      <>
        <PlotlyFrame page={page} run={run} file={file} />
        {link}
      </>
    );
  return mediaType === "text/html" ? (
    <>
      <iframe key={file} class="sample-page" sandbox="" title={name} src={address} loading="lazy" />
      {link}
    </>
  ) : (
    link
  );
}

function Audio({
  address,
  name,
}: {
  readonly address: string;
  readonly name: string;
}): JSX.Element {
  const [seconds, setSeconds] = useState<number | null>(null);
  return (
    <div class="sample-audio">
      <audio
        controls
        preload="metadata"
        src={address}
        aria-label={name}
        onLoadedMetadata={({ currentTarget: { duration } }) =>
          setSeconds(Number.isFinite(duration) ? duration : null)
        }
      />
      {seconds !== null && <span class="card-note">{seconds.toFixed(seconds < 10 ? 2 : 0)} s</span>}
    </div>
  );
}

export function FileLink({
  address,
  file,
  name,
  bytes,
}: {
  readonly address: string;
  readonly file: string;
  readonly name: string;
  readonly bytes: number | null;
}): JSX.Element {
  if (address === MISSING_BLOB)
    return (
      <span title="An archive has no files; the run's folder has them.">
        {name}
        {bytes === null ? "" : `, ${formatBytes(bytes)}`}
      </span>
    );
  return (
    <a class="sample-link" href={address} download={file}>
      {name}
      {bytes === null ? "" : `, ${formatBytes(bytes)}`}
    </a>
  );
}
