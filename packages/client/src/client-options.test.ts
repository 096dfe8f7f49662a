import assert from "node:assert/strict";
import { test } from "node:test";
import { codeq, optionsIn } from "./client.ts";

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
