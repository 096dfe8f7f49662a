import assert from "node:assert/strict";
import { test } from "node:test";
import { loadConfig } from "./load.ts";
import { openFilesWarnings, readOpenFilesMax } from "./open-files.ts";
import type { Config } from "./settings.ts";

function configOf(...argv: readonly string[]): Config {
  const streams = ["--worker-stream-addr=:9091", "--producer-stream-addr=off"];
  const loaded = loadConfig({ argv: [...streams, ...argv], env: {}, readFile: () => "" });
  assert.ok(loaded.ok);
  return loaded.config;
}

test("more connections than open files are warned of, with what to change", () => {
  const config = configOf("--connections-max=2000");
  assert.deepEqual(openFilesWarnings(config, 5000), []);
  assert.deepEqual(openFilesWarnings(config, 4999), [
    "connectionsMax: 2000 connections on each of 2 listener(s) need up to 5000 open files, and the " +
      "system allows 4999; raise that limit (ulimit -n, LimitNOFILE) or lower connectionsMax",
  ]);
  assert.deepEqual(openFilesWarnings(config, undefined), []);
});

test("the limit is read from the system, where it can be", () => {
  const found = readOpenFilesMax();
  assert.ok(found === undefined || (Number.isInteger(found) && found > 0));
  assert.equal(readOpenFilesMax("/nowhere/limits"), undefined);
});
