import { expect, test } from "vitest";

import { requestText } from "../../src/panels/parts/control.tsx";
import type { ControlRequest } from "../../src/wire.ts";

const REQUEST: ControlRequest = {
  id: "1",
  action: "stop",
  who: "ada",
  t: 1,
  state: "waiting",
  outcome: null,
};

test("a request says who asked, and what became of it", () => {
  expect(requestText(REQUEST)).toBe("ada asked to stop: waits for the companion");
  expect(
    requestText({ ...REQUEST, state: "done", outcome: "asked to stop (SIGTERM to process 7)." }),
  ).toBe("ada asked to stop: asked to stop (SIGTERM to process 7).");
  expect(
    requestText({ ...REQUEST, action: "checkpoint", state: "failed", outcome: "no Checkpoints." }),
  ).toBe("ada asked to save a checkpoint: was not done: no Checkpoints.");
});
