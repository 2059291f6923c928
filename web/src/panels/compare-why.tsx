/** What explains that one run is worse than another: the gap, and every difference with its score and its reason. */

import type { JSX } from "preact";

import { formatNumber, formatWhole, slotCss } from "../chart/index.ts";
import type { Page } from "../state/page.ts";
import { useSweep } from "../state/sweep.ts";
import { Empty } from "../ui/empty.tsx";
import type { RunDifference, RunRow, Side, Why } from "../wire.ts";
import { Choice } from "./compare.tsx";
import { valueText } from "./compare-groups.tsx";
import { Section } from "./parts/section.tsx";
import { UnfinishedSwitch } from "./parts/unfinished.tsx";

/** More runs than this make a list that nobody reads. */
const MOST_CHOICES = 500;
/** Differences below this explain nothing and are folded. */
const LEAST_SCORE = 0.1;
const VERDICTS: Readonly<Record<Why["verdict"], string>> = {
  same: "no gap",
  noise: "noise",
  explained: "explained",
  several: "several causes",
  weak: "weakly explained",
  unexplained: "not explained",
};
const TITLES = { cause: "What can explain it", symptom: "What shows it" } as const;

export function WhyView({
  page,
  metric,
  best,
}: {
  readonly page: Page;
  readonly metric: string;
  readonly best: string | null;
}): JSX.Element {
  const { runs, view } = page;
  const [left, right] = [view.text("why-left"), view.text("why-right")];
  const rows = runs.fitting.value.slice(0, MOST_CHOICES);
  const [own, other] = chosenPair(left.value, right.value, rows, runs.focus.value?.id, best);
  const isAlone =
    other === "" &&
    runs.all.value.length >= runs.numAll.value &&
    !runs.all.value.some((row) => isPeer(row, runs.row(own)));
  const request = {
    run: other === "" ? [own] : [own, other],
    ...(metric === "" ? {} : { metric }),
    ...(view.withUnfinished.value ? { unfinished: true } : {}),
  };
  const { answer, problem, isWaiting } = useSweep(
    page,
    own === "" || isAlone || page.source.sweep.why === null ? null : JSON.stringify(request),
    (source) => source.why!(request),
  );
  if (page.source.sweep.why === null)
    return (
      <Empty title="A saved page cannot explain differences">
        Open these runs with “epochal serve” to see what explains them.
      </Empty>
    );
  const choices = rows.map(({ id }) => [id, runs.label(id)] as const);
  return (
    <>
      <div class="pane-bar">
        <Choice label="Run" value={own} choices={choices} onChange={(id) => (left.value = id)} />
        <Choice
          label="Compared with"
          value={other}
          choices={[["", "its group or project"], ...choices]}
          onChange={(id) => (right.value = id === "" ? GROUP : id)}
        />
        <UnfinishedSwitch page={page} unfinished={answer?.unfinished} />
      </div>
      {isAlone ? (
        <Empty title="There is no other run to compare with">
          Its group or project has only this run: choose another run above.
        </Empty>
      ) : answer === null ? (
        <p class="groups-waiting" role="status">
          {problem ?? "Comparing …"}
        </p>
      ) : (
        <Answer page={page} found={answer} isWaiting={isWaiting} />
      )}
    </>
  );
}

/** Whether a run is one of those that another is compared with, by the rule of the server. */
function isPeer({ id, project, group }: RunRow, of: RunRow | undefined): boolean {
  return (
    of !== undefined &&
    id !== of.id &&
    project === of.project &&
    (of.group === null || group === of.group)
  );
}

/** In the address: the group was chosen, not just nothing. */
const GROUP = "group";

/** The runs to compare: those chosen here, else the run in focus and the best one. */
export function chosenPair(
  left: string,
  right: string,
  rows: readonly RunRow[],
  focus: string | undefined,
  best: string | null,
): readonly [string, string] {
  const known = new Set(rows.map(({ id }) => id));
  const own = known.has(left) ? left : (focus ?? rows[0]?.id ?? "");
  if (known.has(right) && right !== own) return [own, right];
  return [own, right === GROUP || best === null || best === own ? "" : best];
}

function Answer({
  page,
  found,
  isWaiting,
}: {
  readonly page: Page;
  readonly found: Why;
  readonly isWaiting: boolean;
}): JSX.Element {
  const kinds = (["cause", "symptom"] as const).map((kind) => ({
    kind,
    rows: found.differences.filter((one) => one.kind === kind),
  }));
  return (
    <div class="groups-view" aria-busy={isWaiting}>
      <p class="groups-verdict" role="status">
        <span class={`why-verdict is-${found.verdict}`}>{VERDICTS[found.verdict]}</span>
        {found.sentence}
      </p>
      <div class="why-sides">
        {[found.left, found.right].map((side, index) => (
          <SideCard
            key={index}
            page={page}
            side={side}
            found={found}
            isWorse={found.worse === (index === 0 ? "left" : "right") && found.verdict !== "same"}
          />
        ))}
      </div>
      {kinds.map(
        ({ kind, rows }) =>
          rows.length > 0 && (
            <Section
              key={kind}
              title={TITLES[kind]}
              note={
                kind === "cause"
                  ? "the score orders what to try first; it is not a probability"
                  : undefined
              }
            >
              <Differences found={found} rows={rows} />
            </Section>
          ),
      )}
      <p class="card-note is-text">{restText(found)}</p>
    </div>
  );
}

function SideCard({
  page,
  side,
  found,
  isWorse,
}: {
  readonly page: Page;
  readonly side: Side;
  readonly found: Why;
  readonly isWorse: boolean;
}): JSX.Element {
  const id = side.runs.length === 1 ? side.runs[0]! : null;
  return (
    <div class="card why-side">
      <span class="why-name">
        {id !== null && <i class="run-dot" style={{ background: slotCss(page.runs.slot(id)) }} />}
        {id === null ? side.name : page.runs.label(id)}
        {isWorse && <span class="why-worse">worse</span>}
      </span>
      <span class="why-value">{side.value === null ? "not finite" : formatNumber(side.value)}</span>
      <span class="card-note">
        {found.metric}
        {endText(side, found.x)}
        {id === null ? "; median of the runs" : ""}
      </span>
    </div>
  );
}

/** What the value of a side is: the mean of its last points, or the last one. */
export function endText({ points, at }: Side, x: string): string {
  return `${points > 1 ? `, the mean of the last ${formatWhole(points)} points up to` : " at"} ${x} ${formatWhole(at)}`;
}

function Differences({
  found,
  rows,
}: {
  readonly found: Why;
  readonly rows: readonly RunDifference[];
}): JSX.Element {
  const shown = rows.filter(({ score }) => score >= LEAST_SCORE);
  const rest = rows.filter(({ score }) => score < LEAST_SCORE);
  return (
    <div class="groups-scroll" tabIndex={0} role="region" aria-label="Differences">
      {shown.length > 0 && <DifferenceTable found={found} rows={shown} />}
      {rest.length > 0 && (
        <details class="why-rest">
          <summary>
            {rest.length === 1
              ? "The remaining difference does"
              : `The ${rest.length} remaining differences do`}{" "}
            not explain the gap
          </summary>
          <DifferenceTable found={found} rows={rest} />
        </details>
      )}
    </div>
  );
}

function DifferenceTable({
  found,
  rows,
}: {
  readonly found: Why;
  readonly rows: readonly RunDifference[];
}): JSX.Element {
  return (
    <table class="groups-table why-table">
      <thead>
        <tr>
          <th scope="col">score</th>
          <th scope="col">difference</th>
          <th scope="col">{found.left.name}</th>
          <th scope="col">{found.right.name}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((one) => (
          <tr key={`${one.area} ${one.key}`}>
            <td>
              <span class="matters-bar">
                <i style={{ width: `${one.score * 70}px` }} />
                <span>{one.score.toFixed(2)}</span>
              </span>
            </td>
            <th scope="row">
              <span class="matters-quiet">{one.area}</span> {one.key}
              <span class="why-reason">{one.reason}</span>
            </th>
            <td class={textClass(one.left)}>{valueText(one.left)}</td>
            <td class={textClass(one.right)}>
              {valueText(one.right)}
              {one.others !== "" && <span class="matters-quiet"> ({one.others})</span>}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function textClass(value: unknown): string {
  return valueText(value).length > 24 ? "why-text is-long" : "why-text";
}

/** What was compared without a difference, and what could not be. */
export function restText({ equal, unknown, noise }: Why): string {
  return [
    ...(noise > 0 ? [`A gap up to ${formatNumber(noise)} is noise.`] : []),
    ...(equal.length > 0 ? [`Equal: ${equal.join(", ")}.`] : []),
    ...(unknown.length > 0 ? [`Not compared: ${unknown.join(", ")}.`] : []),
  ].join(" ");
}
