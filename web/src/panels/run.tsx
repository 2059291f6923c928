/** One run on one page: an overview that fills the screen, and below it the sections that have content. */

import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useErrorBoundary, useLayoutEffect, useMemo, useRef } from "preact/hooks";

import { formatWallClock, formatWhole } from "../chart/index.ts";
import { SAMPLE_KINDS, useEntries, useRunResponse } from "../state/queries.ts";
import { isEnded } from "../state/run-rows.ts";
import { Empty } from "../ui/empty.tsx";
import { ConfigCard } from "./config.tsx";
import { FindingsCard } from "./findings.tsx";
import type { PanelProps, RunSection, SectionProps } from "./panel.ts";
import { NoRun } from "./parts/no-run.tsx";
import { phaseMeaning, phasesIn, phaseTone } from "./parts/phases.ts";
import { AsOf, ResourceBars, useNow } from "./parts/resources.tsx";
import { chartsOf, RunChart } from "./parts/run-charts.tsx";
import { RunHead } from "./parts/run-head.tsx";
import { SampleBody } from "./parts/sample-body.tsx";
import { classesOf, sampleOf } from "./parts/sample-record.ts";
import { phaseNames, phasesOf } from "./parts/step-phases.ts";
import { PhaseBar } from "./parts/time-of-steps.tsx";
import { openSection, scrollToSection, sectionsOfRun } from "./sections.ts";
import "./run.css";

const MOST_ALERTS = 5;
const MOST_SAMPLES = 8;
const MOST_GPUS = 8;
/** Sections that are open, for as long as the page is: the next run has the same ones open. */
const opened = signal<ReadonlySet<string>>(new Set());

export function Run({ page }: PanelProps): JSX.Element {
  const row = page.runs.focus.value;
  const detail = row === null ? null : page.details.of(row.id).value;
  const place = useRef<HTMLDivElement>(null);
  const height = useRef(0);
  // The next run begins where this one was scrolled to.
  useLayoutEffect(() => {
    if (detail !== null) height.current = place.current?.offsetHeight ?? 0;
  });
  if (row === null) return <NoRun page={page} />;
  if (row.problem !== null)
    return <Empty title={`${row.name} cannot be read`}>{row.problem}</Empty>;
  return (
    <div
      ref={place}
      class="run-place"
      aria-busy={detail === null}
      style={{ minHeight: detail === null ? `${height.current}px` : undefined }}
    >
      <RunHead page={page} row={row} detail={detail} />
      {detail !== null && <Content key={row.id} page={page} run={row} detail={detail} />}
    </div>
  );
}

function Content(props: SectionProps): JSX.Element {
  const { page, detail } = props;
  const sections = sectionsOfRun().filter(({ hasContent }) => hasContent(page, detail));
  const hasCharts = detail.metrics.length > 0;
  // A run without numbers shows what else it has.
  const first = hasCharts ? undefined : sections.find(({ id }) => id !== "findings")?.id;
  const { section } = page.view;
  useEffect(() => {
    if (section.value !== "") opened.value = new Set([...opened.peek(), section.value]);
  }, [section.value]);
  const missing = sections.some(({ id }) => id === section.value)
    ? undefined
    : sectionsOfRun().find(({ id }) => id === section.value);
  const links = useRef<HTMLElement>(null);
  // On a phone there are more links than room.
  useEffect(() => {
    const link = links.current!.querySelector<HTMLElement>("[aria-current=true]");
    if (link !== null) links.current!.scrollLeft = link.offsetLeft - links.current!.clientWidth / 3;
  }, [section.value, page.findings.all.value?.length]);
  return (
    <>
      <nav ref={links} class="run-links" aria-label="Sections of the run">
        {sections.map(({ id, title, count, shortcut }) => (
          <a
            key={id}
            href={`#at=${id}`}
            title={`${title} (${shortcut})`}
            aria-current={section.value === id}
            onClick={(event) => {
              event.preventDefault();
              openSection(page, id);
            }}
          >
            {title}
            {count?.(page) !== undefined && <span class="group-count"> {count(page)}</span>}
          </a>
        ))}
      </nav>
      {missing !== undefined && <p role="status">This run recorded nothing for {missing.title}.</p>}
      <Overview {...props} />
      {sections.map((one) => (
        <SectionOfRun key={one.id} {...props} section={one} isFirst={one.id === first} />
      ))}
    </>
  );
}

/** What is above a section may still load and grow: scroll to it again until the person does something. */
function keepInView(id: string): () => void {
  const observer = new ResizeObserver(() => scrollToSection(id));
  observer.observe(document.querySelector(".run-place")!);
  const stop = (): void => observer.disconnect();
  for (const type of ["wheel", "pointerdown", "keydown", "touchstart"])
    addEventListener(type, stop, { once: true, passive: true });
  return stop;
}

/** A section is mounted while it is open, and scrolled to when the address names it. */
function SectionOfRun({
  section: { id, title, component: Component, count },
  isFirst,
  ...props
}: SectionProps & { readonly section: RunSection; readonly isFirst: boolean }): JSX.Element {
  const { page, detail } = props;
  const chosen = page.view.section;
  const isOpen =
    opened.value.has(id) || chosen.value === id || (isFirst && !opened.value.has(`-${id}`));
  useEffect(() => (chosen.value === id ? keepInView(id) : undefined), [chosen.value === id]);
  const toggle = (): void => {
    const others = [...opened.peek()].filter((one) => one !== id && one !== `-${id}`);
    opened.value = new Set([...others, isOpen ? `-${id}` : id]);
    if (isOpen && chosen.value === id) chosen.value = "";
  };
  const number = count?.(page);
  return (
    <div class="group run-section" data-section={id}>
      <h2>
        <button type="button" class="group-head" aria-expanded={isOpen} onClick={toggle}>
          <span class="group-arrow" aria-hidden="true">
            {isOpen ? "▾" : "▸"}
          </span>
          {title}
          {number !== undefined && <span class="group-count">{number}</span>}
        </button>
      </h2>
      {isOpen && (
        <Guarded key={detail.row.id} what={title}>
          <Component {...props} />
        </Guarded>
      )}
    </div>
  );
}

/** What fails while it is drawn takes nothing else with it. */
function Guarded({
  what,
  children,
}: {
  readonly what: string;
  readonly children: ComponentChildren;
}): JSX.Element {
  const [error, reset] = useErrorBoundary((fault: unknown) => console.warn(fault));
  if (error === undefined) return <>{children}</>;
  return (
    <p class="problem" role="alert">
      {what} cannot be shown: {error instanceof Error ? error.message : String(error)}{" "}
      <button type="button" class="button" onClick={reset}>
        Try again
      </button>
    </p>
  );
}

function Overview(props: SectionProps): JSX.Element {
  const { page, run, detail } = props;
  const { main, small } = useMemo(() => chartsOf(detail), [detail]);
  // Without findings there is room beside the chart.
  const isQuiet = main.length > 0 && page.findings.all.value?.length === 0;
  const machine = (
    <Guarded what="The machine">
      <MachineCard {...props} />
    </Guarded>
  );
  return (
    <div class={`overview${main.length === 0 ? " is-bare" : ""}`}>
      <div class="overview-top">
        {main.length === 0 ? (
          <p class="card card-empty run-empty">
            {isEnded(run)
              ? "This run recorded no metrics."
              : "This run has no metrics yet: charts appear with the first."}
          </p>
        ) : (
          <Guarded what="The main chart">
            <RunChart page={page} run={run.id} charts={main}>
              <PhaseKey page={page} />
            </RunChart>
          </Guarded>
        )}
        <div class="overview-side">
          <FindingsCard page={page} />
          <InternalErrors page={page} />
          {detail.recorded.includes("event") && <Alerts {...props} />}
          <Lineage {...props} />
          {isQuiet && <ConfigCard {...props} />}
          {isQuiet && machine}
        </div>
      </div>
      <div class="overview-small">
        {small.map((one) => (
          <Guarded key={one.row.name} what={one.label}>
            <RunChart page={page} run={run.id} charts={[one]} />
          </Guarded>
        ))}
      </div>
      <div class="overview-now">
        {!isQuiet && machine}
        {detail.recorded.includes("phases") && (
          <Guarded what="The time of a step">
            <StepTimeCard {...props} />
          </Guarded>
        )}
      </div>
      {main.length > 0 && detail.recorded.some((kind) => SAMPLE_KINDS.includes(kind)) && (
        <Guarded what="The newest samples">
          <SampleRow {...props} />
        </Guarded>
      )}
    </div>
  );
}

/** Which colour of the strip under the loss is which phase. */
function PhaseKey({ page }: PanelProps): JSX.Element | null {
  const phases = phasesIn(page.marks.onAxis(page.view.x.value));
  if (phases.length === 0) return null;
  return (
    <p class="phase-key">
      {phases.map((phase) => (
        <span key={phase} class={`is-${phaseTone(phase)}`} title={phaseMeaning(phase) ?? undefined}>
          {phase}
        </span>
      ))}
    </p>
  );
}

/** Where the newest steps' time went; the section has all of them. */
function StepTimeCard({ page, run }: SectionProps): JSX.Element | null {
  const { list } = useEntries(page, "phases", run.id, { limit: 1 });
  const phases = list?.entries.flatMap((entry) => phasesOf(entry) ?? []).at(-1);
  if (phases === undefined) return null;
  return (
    <Card title="Time of a step" more="all steps" onMore={() => openSection(page, "performance")}>
      <div class="section-body">
        <PhaseBar phases={phases} names={phaseNames([phases])} />
      </div>
    </Card>
  );
}

interface CardProps {
  readonly title: string;
  readonly class?: string;
  readonly more?: string;
  readonly onMore?: () => void;
  readonly tools?: ComponentChildren;
  readonly children: ComponentChildren;
}

function Card({ title, more, onMore, tools, class: name = "", children }: CardProps): JSX.Element {
  return (
    <section class={`card ${name}`} aria-label={title}>
      <header class="card-head">
        <h3>{title}</h3>
        <span class="card-space" />
        {tools}
        {more !== undefined && (
          <button type="button" class="button is-quiet" onClick={onMore}>
            {more}
          </button>
        )}
      </header>
      {children}
    </section>
  );
}

/** What the program reported with `run.alert`, newest first. */
function Alerts({ page, run }: SectionProps): JSX.Element | null {
  const { list } = useEntries(page, "log", run.id, {
    kind: ["event"],
    name: "alert",
    limit: MOST_ALERTS,
  });
  if (list === null || list.entries.length === 0) return null;
  return (
    <Card
      title="Alerts of the program"
      class="internal-errors"
      {...(list.total > MOST_ALERTS
        ? { more: `all ${list.total}`, onMore: () => openSection(page, "log") }
        : {})}
    >
      <ul>
        {list.entries.toReversed().map(({ position, t, step, record }) => (
          <li key={position}>
            <b>{String(record?.title ?? "alert")}</b> {String(record?.text ?? "")}{" "}
            <span class="card-note">
              {[
                String(record?.level ?? ""),
                step === null ? "" : `step ${formatWhole(step)}`,
                t === null ? "" : formatWallClock(t),
              ]
                .filter((word) => word !== "")
                .join(" · ")}
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function MachineCard({ page, detail }: SectionProps): JSX.Element | null {
  const now = useNow(page, detail, MOST_GPUS);
  const first = now.machines[0]!;
  if (first.bars.length === 0) return null;
  return (
    <Card title="Machine" tools={<AsOf now={now} />}>
      <div class="resources">
        <ResourceBars {...first} />
      </div>
    </Card>
  );
}

/** The newest sample of each name; the section has all of them. */
function SampleRow({ page, run }: SectionProps): JSX.Element | null {
  const { response } = useRunResponse(page, "samples", run.id, undefined, SAMPLE_KINDS);
  const newest = useMemo(() => {
    const samples = (response?.entries ?? [])
      .flatMap((entry) => sampleOf(entry) ?? [])
      .toSorted((one, other) => (other.t ?? 0) - (one.t ?? 0));
    // Of a list that was logged together one is enough while other names have none.
    const firsts = samples.filter(
      ({ name }, index) => samples.findIndex((one) => one.name === name) === index,
    );
    return [...firsts, ...samples.filter((one) => !firsts.includes(one))].slice(0, MOST_SAMPLES);
  }, [response]);
  if (newest.length === 0) return null;
  return (
    <Card title="Newest samples" more="all samples" onMore={() => openSection(page, "samples")}>
      <ul class="run-samples" tabIndex={0}>
        {newest.map((sample) => (
          <li key={`${sample.name} ${sample.index}`}>
            <p class="run-sample-name" title={sample.name}>
              {sample.name}
              {sample.step !== null && (
                <span class="card-note"> step {formatWhole(sample.step)}</span>
              )}
            </p>
            <SampleBody page={page} run={run.id} sample={sample} classes={classesOf([sample])} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** Faults of Epochal itself in the run. */
function InternalErrors({ page }: PanelProps): JSX.Element | null {
  const errors = page.findings.internalErrors.value;
  if (errors.length === 0) return null;
  const total = errors.reduce((sum, { count }) => sum + count, 0);
  return (
    <Card title="Internal errors" class="internal-errors">
      <p class="card-empty">
        Epochal itself had {total === 1 ? "an internal error" : `${total} internal errors`}. The
        record of the run is not affected. The log has the tracebacks;{" "}
        <code>epochal doctor --json</code> prints them for a report.
      </p>
      <ul>
        {errors.map(({ member, reason, count }) => (
          <li key={member}>
            <b>{member}</b>
            {count > 1 ? ` (${count} times)` : ""}: {reason}
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** Which run this one was forked from, and which were forked from it. */
function Lineage({ page, run: { id: own, fork } }: SectionProps): JSX.Element | null {
  const forks = page.runs.all.value.filter((one) => one.fork?.id === own);
  if (fork === null && forks.length === 0) return null;
  const link = (id: string, name: string, step: number): JSX.Element => (
    <>
      {page.runs.row(id) === undefined ? (
        <b>{name}</b>
      ) : (
        <button type="button" class="link" onClick={() => (page.view.focus.value = id)}>
          {name}
        </button>
      )}{" "}
      after step {formatWhole(step)}
    </>
  );
  return (
    <Card title="Lineage">
      {fork !== null && (
        <p class="card-empty">Forked from {link(fork.id, fork.name, fork.step)}.</p>
      )}
      {forks.length > 0 && (
        <p class="card-empty">
          Forks:{" "}
          {forks.map(({ id, name, fork: of }, index) => (
            <span key={id}>
              {index === 0 ? "" : ", "}
              {link(id, name, of!.step)}
            </span>
          ))}
          .
        </p>
      )}
    </Card>
  );
}
