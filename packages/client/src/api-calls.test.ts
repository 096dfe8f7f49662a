import assert from "node:assert/strict";
import { test } from "node:test";
import { answerWith } from "./api-calls.ts";

type Answer = { readonly state: string } | { readonly matched: number; readonly hasMore: boolean };

test("of several answers, the one with the field is given", () => {
  const answer = { matched: 2, hasMore: false } as Answer;
  assert.equal(answerWith("hasMore", answer).matched, 2);
  assert.throws(() => answerWith("state", answer), { code: "not_codeq" });
});
