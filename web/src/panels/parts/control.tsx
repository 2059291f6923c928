/** Buttons that stop, suspend and continue a training through a hub; nothing where the hub or the person may not. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import type { Page } from "../../state/page.ts";
import { isEnded } from "../../state/run-rows.ts";
import type { Control as ControlState, ControlRequest, RunRow } from "../../wire.ts";

type Action = ControlRequest["action"];

const ACTIONS: readonly (readonly [Action, string, string])[] = [
  ["checkpoint", "Save a checkpoint", "Saves after its step and goes on"],
  ["suspend", "Suspend", "It keeps its memory and does nothing"],
  ["continue", "Continue", "Continue a suspended training"],
  ["stop", "Stop", "A training with Checkpoints saves first"],
];
const PENDING_MS = 1000;
const IDLE_MS = 5000;

export function Control({
  page,
  row,
}: {
  readonly page: Page;
  readonly row: RunRow;
}): JSX.Element | null {
  const { control: ask } = page.source;
  const isLive = ask !== null && !isEnded(row);
  const [control, setControl] = useState<ControlState | null>(null);
  const [isSure, setSure] = useState(false);
  const [count, setCount] = useState(0);
  useEffect(() => {
    if (!isLive) return undefined;
    let timer = 0;
    let isOver = false;
    const look = (): void =>
      void page.source.get("control", row.id).then(
        (found) => {
          if (isOver) return;
          setControl(found);
          if (found.allowed)
            timer = window.setTimeout(look, isPending(found.requests[0]) ? PENDING_MS : IDLE_MS);
        },
        () => undefined,
      );
    look();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [row.id, isLive, count]);
  if (!isLive || control?.allowed !== true) return null;
  const request = async (action: Action): Promise<void> => {
    setSure(false);
    await page.toasts.attempt(() => ask(row.id, action));
    setCount((before) => before + 1);
  };
  const newest = control.requests[0];
  return (
    <section class="control" aria-label="Control">
      {ACTIONS.map(([action, label, title]) => (
        <button
          key={action}
          type="button"
          class="button"
          title={title}
          disabled={!control.listens}
          onClick={() => (action === "stop" && !isSure ? setSure(true) : void request(action))}
        >
          {action === "stop" && isSure ? "Stop it now?" : label}
        </button>
      ))}
      {!control.listens && (
        <p>
          The training takes no requests: it runs without EPOCHAL_CONTROL=1, or is not connected.
        </p>
      )}
      {newest !== undefined && <p role="status">{requestText(newest)}</p>}
    </section>
  );
}

function isPending(request: ControlRequest | undefined): boolean {
  return request !== undefined && (request.state === "waiting" || request.state === "taken");
}

/** Who asked for what, and what became of it. */
export function requestText({ action, who, state, outcome }: ControlRequest): string {
  const end = {
    waiting: "waits for the companion",
    taken: "is being done",
    done: outcome,
    failed: `was not done: ${outcome}`,
    expired: "expired: no companion took it",
  }[state];
  return `${who} asked to ${action === "checkpoint" ? "save a checkpoint" : action}: ${end}`;
}
