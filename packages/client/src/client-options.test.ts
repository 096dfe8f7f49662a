import assert from "node:assert/strict";
import { test } from "node:test";
import { codeq, optionsIn, task } from "./client.ts";
import { testServer } from "./test-server/index.ts";

test("address and token come from the environment, unless they are given", () => {
  const env = { CODEQ_BASE_URL: "http://a:1", CODEQ_TOKEN: "secret", CODEQ_GRACE: "5s" };
  const found = { url: ["http://a:1"], token: "secret", grace: "5s" };
  assert.deepEqual(optionsIn(env, {}), found);
  const both = { ...env, CODEQ_URL: "http://b:1, http://c:1" };
  assert.deepEqual(optionsIn(both, {}).url, ["http://b:1", "http://c:1"]);
  const given = { url: "http://d:1", token: "mine", grace: 0 };
  assert.deepEqual(optionsIn(both, given), given);
  const empty = optionsIn({ CODEQ_URL: "", CODEQ_BASE_URL: "", CODEQ_TOKEN: "" }, {});
  assert.deepEqual([empty.url, empty.token], [undefined, undefined]);
});

test("an unknown option is refused and named", () => {
  const misspelt = { baseUrl: "http://a:1" } as object;
  assert.throws(() => codeq(misspelt), {
    code: "invalid_option",
    message: /^unknown option baseUrl; the options are url, token, /,
  });
});

test("unknown options of tasks, of workers and of what is enqueued are refused as well", async () => {
  await using server = await testServer();
  const { client } = server;
  const greet = task<number, void>("greet");
  const wrong = (options: object): never => options as never;
  const attempts: [() => unknown, RegExp][] = [
    [() => task("x", wrong({ prority: 1 })), /^unknown option prority of the task x; .*priority/],
    [
      () => task("x", wrong({ retry: { attempts: 1 } })),
      /^unknown option attempts of retry of the task x; the options are maxAttempts, delay$/,
    ],
    [() => client.enqueue(greet, 1, wrong({ dely: 1 })), /^unknown option dely for the task greet/],
    [
      () => client.enqueue(greet, 1, wrong({ unique: { key: "a", whle: "waiting" } })),
      /^unknown option whle of unique; the options are key, while, on, for, maxWait$/,
    ],
    [
      () =>
        client.worker(
          greet.handle(() => {}),
          wrong({ concurency: 1 }),
        ),
      /concurency of a worker/,
    ],
    [
      () =>
        client.worker(
          greet.handle(() => {}),
          wrong({ on: { fail: () => {} } }),
        ),
      /^unknown option fail in on of a worker; the options are completed, failed/,
    ],
  ];
  for (const [attempt, message] of attempts) {
    await assert.rejects(async () => attempt(), { code: "invalid_option", message });
  }
  assert.deepEqual(server.counts(greet), { ready: 0, delayed: 0, leased: 0, dead: 0 });
});
