import assert from "node:assert/strict";
import test from "node:test";
import { duration } from "../format.ts";
import { niceTimeMax } from "./scale.ts";

test("the quarters of a scale of times have short texts, which differ, and no value is above the scale", () => {
  for (let ms = 4; ms < 30 * 86_400_000; ms *= 1.07) {
    const most = niceTimeMax(ms);
    assert.ok(most >= ms && most <= 5 * ms, `${ms} of ${most}`);
    const texts = [0.25, 0.5, 0.75, 1].map((part) => duration(most * part));
    assert.equal(new Set(texts).size, 4, texts.join());
    for (const text of texts) assert.ok(text.length <= 6, `${duration(ms)}: ${texts.join()}`);
  }
});
