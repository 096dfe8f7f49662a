import assert from "node:assert/strict";
import { test } from "node:test";
import {
  connectionsThatFit,
  isLoweredNotably,
  openFilesAdvice,
  readOpenFilesMax,
} from "./listeners.ts";
import { type CheckFiles, type LoadedConfig, loadConfig } from "./load.ts";
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

function load(
  argv: readonly string[],
  more: { readonly env?: Record<string, string>; readonly checkFiles?: CheckFiles } = {},
): LoadedConfig {
  const { env = {}, checkFiles = () => ({ problems: [], warnings: [] }) } = more;
  return loadConfig({ argv, env, readFile: () => "", checkFiles });
}

function problemsOf(...argv: readonly string[]): readonly string[] {
  const loaded = load(argv);
  assert.ok(!loaded.ok, "expected problems");
  return loaded.problems;
}

function tlsWarnings(...argv: readonly string[]): readonly string[] {
  const loaded = load(argv);
  assert.ok(loaded.ok, loaded.ok ? "" : loaded.problems.join("\n"));
  return loaded.warnings.filter((warning) => warning.startsWith("NO TLS"));
}

const pair = ["--tls-cert-file=a.crt", "--tls-key-file=a.key"];

test("half of a TLS configuration is refused with the other half", () => {
  assert.deepEqual(problemsOf("--tls-cert-file=a.crt"), [
    "tlsKeyFile: required because tlsCertFile is set; a certificate needs its key",
  ]);
  assert.deepEqual(problemsOf("--tls-key-file=a.key"), [
    "tlsCertFile: required because tlsKeyFile is set; a certificate needs its key",
  ]);
  assert.match(problemsOf("--tls-client-ca-file=ca.crt").join(), /set tlsCertFile and tlsKeyFile$/);
  assert.match(problemsOf(...pair, "--tls-client-auth=optional").join(), /set tlsClientCaFile/);
  assert.equal(load([...pair, "--tls-client-ca-file=c", "--tls-client-auth=optional"]).ok, true);
});

test("what is wrong with files is reported together with the rest", () => {
  const checkFiles: CheckFiles = ({ tlsCertFile }) => ({
    problems: [`${tlsCertFile} is gone`],
    warnings: [],
  });
  const loaded = load([...pair, "--port=eighty"], { checkFiles });
  assert.ok(!loaded.ok);
  assert.equal(loaded.problems.length, 2);
  assert.match(loaded.problems.join("\n"), /eighty.*\na\.crt is gone$/);
  const warned = load([], { checkFiles: () => ({ problems: [], warnings: ["soon over"] }) });
  assert.ok(warned.ok && warned.warnings.includes("soon over"));
});

test("listening beyond this machine without TLS is warned of, on any listener", () => {
  for (const host of ["127.0.0.1", "127.8.9.1", "::1", "0:0:0:0:0:0:0:1", "localhost"]) {
    assert.deepEqual(tlsWarnings(`--host=${host}`, "--worker-stream-addr=:9091"), [], host);
  }
  for (const host of ["0.0.0.0", "::", "10.0.0.5", "192.168.1.2", "queue.internal", "fe80::1"]) {
    const [warning = ""] = tlsWarnings(`--host=${host}`);
    assert.ok(warning.includes(host), `${host}: ${warning}`);
    assert.match(warning, /set tlsCertFile and tlsKeyFile, or insecure: true/);
  }
  const [streams = ""] = tlsWarnings(
    ...["--worker-stream-addr=0.0.0.0:9091", "--producer-stream-addr=[::]:9092"],
  );
  assert.match(streams, /^NO TLS on 0\.0\.0\.0:9091, \[::\]:9092: /);
  assert.match(
    tlsWarnings("--host=0.0.0.0", "--worker-stream-addr=:9091").join(),
    /0\.0\.0\.0:9091/,
  );
});

test("TLS, or saying that it is meant, ends the warning", () => {
  assert.deepEqual(tlsWarnings("--host=0.0.0.0", ...pair), []);
  assert.deepEqual(tlsWarnings("--host=0.0.0.0", "--insecure"), []);
  assert.equal(tlsWarnings("--host=0.0.0.0", "--insecure=false").length, 1);
});
