import assert from "node:assert/strict";
import { test } from "node:test";
import { loadConfig } from "./load.ts";
import {
  connectionsThatFit,
  isLoweredNotably,
  openFilesAdvice,
  readOpenFilesMax,
} from "./open-files.ts";
import type { Config } from "./settings.ts";

function configOf(...argv: readonly string[]): Config {
  const streams = ["--worker-stream-addr=:9091", "--producer-stream-addr=off"];
  const loaded = loadConfig({ argv: [...streams, ...argv], env: {}, readFile: () => "" });
  assert.ok(loaded.ok);
  return loaded.config;
}

test("connections are lowered to what storage leaves of the open files", () => {
  const config = configOf("--connections-max=2000");
  assert.equal(connectionsThatFit(config, undefined), 2000);
  assert.equal(connectionsThatFit(config, 5000), 2000);
  assert.equal(connectionsThatFit(config, 4999), 1999);
  assert.equal(connectionsThatFit(config, 2000), 500);
  assert.equal(connectionsThatFit(config, 1024), 230);
  assert.equal(connectionsThatFit(config, 10), 2);
  assert.equal(connectionsThatFit(configOf("--connections-max=100"), 1024), 100);
});

test("every shard has files of its own", () => {
  const config = configOf("--connections-max=2000", "--shards=4");
  assert.equal(connectionsThatFit(config, 5096), 2000);
  assert.equal(connectionsThatFit(config, 5094), 1999);
  assert.equal(connectionsThatFit(configOf("--shards=64"), 1024), 1);
  assert.match(openFilesAdvice(config, 1024) ?? "", /allow 5096 open files/);
});

test("what was lowered is told with what to change", () => {
  const config = configOf("--connections-max=2000");
  assert.equal(openFilesAdvice(config, 5000), undefined);
  assert.equal(
    openFilesAdvice(config, 1024),
    "the system allows 1024 open files, so each listener accepts 230 connections instead of 2000 " +
      "(connectionsMax); allow 5000 open files (ulimit -n, LimitNOFILE) for all of them",
  );
});

test("the limit is read from the system, where it can be", () => {
  const found = readOpenFilesMax();
  assert.ok(found === undefined || (Number.isInteger(found) && found > 0));
  assert.equal(readOpenFilesMax("/nowhere/limits"), undefined);
});

test("a start says so when connections were asked for, or few are left of the default", () => {
  const asked = configOf("--connections-max=9000");
  assert.equal(isLoweredNotably(asked, 19_000), false);
  assert.equal(isLoweredNotably(asked, 18_000), true);
  const byDefault = configOf();
  assert.equal(isLoweredNotably(byDefault, undefined), false);
  assert.equal(isLoweredNotably(byDefault, 20_000), false);
  assert.equal(isLoweredNotably(byDefault, 3000), false);
  assert.equal(isLoweredNotably(byDefault, 2999), true);
});
