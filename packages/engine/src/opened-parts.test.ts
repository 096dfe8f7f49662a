import assert from "node:assert/strict";
import { test } from "node:test";
import { OpenedParts } from "./opened-parts.ts";

function setup(): {
  readonly closed: string[];
  part(name: string, fails?: boolean): AsyncDisposable;
} {
  const closed: string[] = [];
  const part = (name: string, fails = false): AsyncDisposable => ({
    [Symbol.asyncDispose]: async () => {
      closed.push(name);
      if (fails) throw new Error(`${name} does not close`);
    },
  });
  return { closed, part };
}

test("parts are closed, the last one first, unless they are kept", async () => {
  const { closed, part } = setup();
  let kept: OpenedParts;
  {
    await using parts = new OpenedParts();
    parts.use(part("a"));
    parts.use(part("b"));
    kept = parts.keep();
    parts.use(part("c"));
  }
  assert.deepEqual(closed, ["c"]);
  await kept[Symbol.asyncDispose]();
  await kept[Symbol.asyncDispose]();
  assert.deepEqual(closed, ["c", "b", "a"]);
});

test("a part that does not close keeps no other one open", async () => {
  const { closed, part } = setup();
  const parts = new OpenedParts();
  for (const each of [part("a"), part("b", true), part("c", true)]) parts.use(each);
  await assert.rejects(parts[Symbol.asyncDispose](), /c does not close/);
  assert.deepEqual(closed, ["c", "b", "a"]);
});
