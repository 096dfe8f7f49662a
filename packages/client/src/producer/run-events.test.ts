import assert from "node:assert/strict";
import { test } from "node:test";
import type { ServerSentEvent } from "../http/http-core.ts";
import { updatesIn } from "./run-events.ts";

/** The names of what is told of such a feed, and the code of the error at its end. */
async function read(...events: readonly ServerSentEvent[]) {
  async function* feed(): AsyncGenerator<ServerSentEvent> {
    yield* events;
  }
  const names: string[] = [];
  let code = "";
  try {
    for await (const { event } of updatesIn("t1", feed())) names.push(event);
  } catch (error) {
    code = (error as { code: string }).code;
  }
  return { names, code };
}

const sent = (name: string, value: object): ServerSentEvent => ({ name, value }) as ServerSentEvent;
const task = (status: string): ServerSentEvent => sent("task", { id: "t1", status });
const told = (event: string): ServerSentEvent => sent(event, { event, taskId: "t1" });
const end = (code: string): ServerSentEvent => sent("end", { code, reason: "the reason" });
const life: ServerSentEvent = { name: "", value: undefined };

test("what happens to a task is told up to its result", async () => {
  const events = [life, task("PENDING"), told("missed"), told("claimed")];
  assert.deepEqual(await read(...events, told("completed"), told("result")), {
    names: ["task", "claimed", "completed", "result"],
    code: "",
  });
  assert.deepEqual(await read(task("FAILED")), { names: ["task"], code: "" });
  assert.deepEqual(await read(task("PENDING"), told("failed")), {
    names: ["task", "failed"],
    code: "",
  });
});

test("a feed that ends before the task does fails, with a code that says whether to try again", async () => {
  const ends = [
    [[end("shutting_down")], "unavailable"],
    [[end("token_revoked")], "token_revoked"],
    [[], "unavailable"],
  ] as const;
  for (const [events, code] of ends) {
    assert.deepEqual(await read(task("PENDING"), told("claimed"), ...events), {
      names: ["task", "claimed"],
      code,
    });
  }
});
