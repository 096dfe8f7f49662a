import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunEvent } from "../../../client/src/index.ts";
import { SimClock } from "../../../simulated/src/index.ts";
import { chooseStyle } from "../terminal/style.ts";
import { CalmLines, eventLine } from "./events.ts";

const style = chooseStyle({ isTerminal: false, env: {}, refused: false });

function event(fields: Partial<RunEvent> = {}): RunEvent {
  return {
    event: "created",
    // Without an offset, so that it is the same time of day everywhere.
    time: "2026-01-02T10:11:12.5",
    tenantId: "main",
    taskId: "019b7ca9-8d00-7000-a569-9bac4a915603",
    command: "Resize",
    priority: 0,
    attempt: 1,
    ...fields,
  };
}

test("a line says when, what, which one, what happened, and what more there is to know", () => {
  const cases: readonly [Partial<RunEvent>, string][] = [
    [{}, "created"],
    [{ priority: 5, delaySeconds: 30 }, "created  priority 5, due in 30 s"],
    [{ event: "claimed", workerId: "w", attempt: 2 }, "claimed  attempt 2, by w"],
    [
      { event: "retried", workerId: "w", delaySeconds: 7, reason: "no luck" },
      "retried  by w, due in 7 s, no luck",
    ],
    [
      { event: "failed", how: "dead_letter", attempt: 3, workerId: "w", reason: "broken" },
      "failed  dead letter, attempt 3, by w, broken",
    ],
    [{ event: "lease_expired", delaySeconds: 0, workerId: "w" }, "lease expired  by w"],
    [{ event: "completed", workerId: "~slot%201@shop@acme" }, "completed  by slot 1"],
  ];
  for (const [fields, expected] of cases) {
    assert.equal(eventLine(event(fields), style), `10:11:12  Resize  4a915603  ${expected}`);
  }
});

test("what others wrote cannot command the terminal", () => {
  const reason = "\x1b]0;owned\x07\x1b[31mred\x9b2J\nnext\r";
  const line = eventLine(event({ event: "retried", workerId: "\x1b[2Jw", reason }), style);
  assert.doesNotMatch(line, /\p{Cc}/u);
  assert.match(line, /by w, red/);
});

test("twenty events in a second are lines, the others are sums, and then it begins anew", async () => {
  const clock = new SimClock();
  const printed: string[] = [];
  const lines = new CalmLines({ clock, style, print: (line) => printed.push(line) });
  for (let n = 0; n < 1020; n += 1) lines.add(event());
  for (let n = 0; n < 3; n += 1) lines.add(event({ event: "lease_expired", command: "resize" }));
  lines.add(event({ event: "completed", command: "mail" }));
  assert.equal(printed.length, 20);
  await clock.advance(1000);
  assert.deepEqual(
    printed.slice(20).map((line) => line.slice(10)),
    ["resize  1,000 created  3 lease expired", "mail  1 completed"],
  );
  await clock.advance(5000);
  lines.add(event());
  assert.equal(printed.length, 23);
  await clock.advance(1000);
  assert.equal(printed.length, 23);
});
