import assert from "node:assert/strict";
import { availableParallelism } from "node:os";
import { test } from "node:test";
import { poolThreads } from "./launch.ts";

test("the pool of threads grows with the shards, wherever their number is written", () => {
  assert.equal(poolThreads([], {}), 8);
  assert.equal(poolThreads(["--shards", "4"], {}), 20);
  assert.equal(poolThreads(["--shards=4"], { CODEQ_SHARDS: "2" }), 20);
  assert.equal(poolThreads(["--port", "4"], { CODEQ_SHARDS: "2" }), 12);
  assert.equal(poolThreads(["--shards", "many"], {}), 8);
  assert.equal(poolThreads([], { CODEQ_SHARDS: "1000000" }), 4 + 4 * 64);
});

test("a file of settings may ask for as many shards as there are cores", () => {
  const ofCores = 4 + 4 * Math.min(availableParallelism(), 64);
  assert.equal(poolThreads(["--config", "codeq.yaml"], {}), ofCores);
  assert.equal(poolThreads([], { CODEQ_CONFIG_PATH: "codeq.yaml" }), ofCores);
  assert.equal(poolThreads(["--config=codeq.yaml", "--shards=1"], {}), 8);
});
