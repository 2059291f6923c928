import { expect, test } from "vitest";

import { startLines } from "../../src/panels/parts/started.tsx";

test("the facts of a start are lines with a date and a command that a shell takes", () => {
  const lines = new Map(
    startLines({
      created: 1794780011.9,
      command: ["python", "train.py", "--name", "a b"],
      cwd: "/srv/me",
      host: "box",
      cpu_count: 1,
      world_size: 8,
      git: { commit: "79b3776b02aa6c68f8b6", branch: "main", dirty: true },
      python: "3.11.7",
      packages: { torch: "2.13.0", zarr: "3" },
      boot_id: "x",
    }),
  );
  expect(lines.get("When")).toMatch(/^2026-11-1\d \d\d:\d\d:11$/);
  expect(lines.get("Command")).toBe("python train.py --name 'a b'");
  expect(lines.get("Machine")).toBe("box · 1 CPU");
  expect(lines.get("Processes")).toBe("8 ranks");
  expect(lines.get("Code")).toBe("79b3776b02aa · main · with uncommitted changes");
  expect(lines.get("Packages")).toBe("torch 2.13.0 · 1 more");
  expect(startLines({})).toEqual([]);
});
