/** How a run was started, in lines that are read at a glance; everything that was recorded stands below. */

import type { JSX } from "preact";

import { formatNumberOf, formatWallClock, formatWhole } from "../../chart/index.ts";

type Facts = Readonly<Record<string, unknown>>;

/** Name and text of each line that the facts of a run have. */
export function startLines(facts: Facts): readonly (readonly [string, string])[] {
  const git = (facts.git ?? {}) as Facts;
  const lines: [string, string | null][] = [
    ["When", typeof facts.created === "number" ? formatWallClock(facts.created) : null],
    ["Command", Array.isArray(facts.command) ? commandText(facts.command.map(String)) : null],
    ["Folder", textOf(facts.cwd)],
    [
      "Machine",
      joined([textOf(facts.host), numberOf(facts.cpu_count, "CPU"), textOf(facts.platform)]),
    ],
    ["Started by", textOf(facts.owner)],
    [
      "Processes",
      typeof facts.world_size === "number" && facts.world_size > 1
        ? `${formatWhole(facts.world_size)} ranks`
        : null,
    ],
    [
      "Code",
      joined([
        textOf(git.commit)?.slice(0, 12) ?? null,
        textOf(git.branch),
        git.dirty === true ? "with uncommitted changes" : null,
      ]),
    ],
    ["Python", textOf(facts.python)],
    ["Packages", packagesText(facts.packages)],
  ];
  return lines.filter((line): line is [string, string] => line[1] !== null && line[1] !== "");
}

export function Started({ facts }: { readonly facts: Facts }): JSX.Element {
  return (
    <dl class="started">
      {startLines(facts).map(([name, text]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Packages that decide about results; the others are in the list below. */
const KNOWN_PACKAGES = [
  "torch",
  "jax",
  "tensorflow",
  "transformers",
  "lightning",
  "accelerate",
  "deepspeed",
  "numpy",
  "epochal",
];

function packagesText(packages: unknown): string | null {
  if (typeof packages !== "object" || packages === null) return null;
  const all = packages as Facts;
  const known = KNOWN_PACKAGES.filter((name) => name in all).map(
    (name) => `${name} ${String(all[name])}`,
  );
  const others = Object.keys(all).length - known.length;
  return joined([...known, others > 0 ? `${formatWhole(others)} more` : null]);
}

/** As a shell takes it. */
function commandText(words: readonly string[]): string {
  return words
    .map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`))
    .join(" ");
}

function textOf(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

function numberOf(value: unknown, noun: string): string | null {
  return typeof value === "number" ? formatNumberOf(value, noun) : null;
}

function joined(parts: readonly (string | null)[]): string {
  return parts.filter((part) => part !== null && part !== "").join(" · ");
}
