/** A figure of Plotly, drawn by the Plotly of the machine that serves the page, in a frame that reaches nothing else. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { Page } from "../../state/page.ts";

export const PLOTLY_TYPE = "application/vnd.plotly.v1+json";

export function PlotlyFrame({
  page,
  run,
  file,
}: {
  readonly page: Page;
  readonly run: string;
  readonly file: string;
}): JSX.Element {
  const [problem, setProblem] = useState<string | null>(null);
  const [address, setAddress] = useState<string | null>(null);
  const [figure, setFigure] = useState<string | null>(null);
  const [isLoaded, setLoaded] = useState(false);
  const frame = useRef<HTMLIFrameElement>(null);
  useEffect(() => {
    let isWanted = true;
    Promise.all([page.source.plotlyUrl(), page.source.blobText(run, file)]).then(
      ([url, text]) => {
        if (!isWanted) return;
        setAddress(url);
        setFigure(text);
      },
      (error: unknown) =>
        isWanted && setProblem(error instanceof Error ? error.message : String(error)),
    );
    return () => {
      isWanted = false;
    };
  }, [page, run, file]);
  // The frame has no origin that could be named. It draws the figure of the next step where the one before was.
  useEffect(() => {
    if (isLoaded && figure !== null) frame.current!.contentWindow!.postMessage(figure, "*");
  }, [isLoaded, figure]);
  if (problem !== null) return <p role="status">{problem}</p>;
  if (address === null)
    return (
      <p role="status" aria-busy>
        Loading…
      </p>
    );
  return (
    <iframe
      ref={frame}
      class="plotly-frame"
      sandbox="allow-scripts"
      title="Plotly figure"
      src={address}
      onLoad={() => setLoaded(true)}
    />
  );
}
