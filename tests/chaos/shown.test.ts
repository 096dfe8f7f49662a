import assert from "node:assert/strict";
import { test } from "node:test";
import { setup } from "../contract/setup.ts";
import { Ledger } from "./ledger.ts";
import { shownBy, withoutAnswer } from "./shown.ts";

test("a task that has not ended is not taken for lost, and a missing one is", async (t) => {
  const server = await setup(t);
  const ask = (path: string): ReturnType<typeof server.ask> =>
    server.ask(`/v1/codeq${path}`, { caller: "producer-acme" });
  const id = await server.leased();
  const result = await ask(`/tasks/${id}/result`);
  assert.equal(result.status, 404, "it has no result yet");
  const shown = await shownBy(ask, id);
  assert.deepEqual(shown, { status: "IN_PROGRESS", by: undefined });
  const ledger = new Ledger();
  ledger.created("work", 0, id);
  ledger.compare(id, shown, "a");
  assert.match(ledger.problems[0] ?? "", /was acknowledged, and is IN_PROGRESS on a in the end/);
  assert.equal(await shownBy(ask, "01890000-0000-7000-8000-000000000000"), undefined);
});

test("a node without a leader says nothing about a task", async () => {
  const answers = [undefined, { status: 503, json: { error: "no leader" } }];
  for (const answer of answers) {
    assert.equal(await shownBy(() => Promise.resolve(answer), "id"), withoutAnswer);
  }
  const ended = (path: string) => ({ status: path.endsWith("/result") ? 404 : 503, json: {} });
  assert.equal(await shownBy((path) => Promise.resolve(ended(path)), "id"), withoutAnswer);
});
