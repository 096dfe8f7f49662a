import assert from "node:assert/strict";
import { test } from "node:test";
import { describeConfig, renderHelp } from "./describe.ts";
import { loadConfig } from "./load.ts";
import { envNamesOf, flagOf, rowOf, settingNames } from "./setting-table.ts";

function describe(env: Record<string, string>): Map<string, { value: string; source: string }> {
  const result = loadConfig({ argv: [], env, readFile: () => "" });
  assert.ok(result.ok);
  return new Map(describeConfig(result.config).map((row) => [row.key, row]));
}

test("the listing has every key with its value and source, and no secret", () => {
  const rows = describe({
    PORT: "81",
    WEBHOOK_HMAC_SECRET: "hush",
    PRODUCER_AUTH_CONFIG: '[{"token":"hush-a"},{"token":"hush-b"}]',
    WORKER_AUTH_CONFIG: "hush-c",
    PERSISTENCE_CONFIG: '{"path":"./p"}',
  });
  assert.equal(rows.size, settingNames.length - 1);
  assert.deepEqual(rows.get("port"), {
    key: "port",
    value: "81",
    source: "environment variable PORT",
  });
  assert.equal(rows.get("producerAuthConfig")?.value, "*** (2 tokens)");
  assert.equal(rows.get("workerAuthConfig")?.value, "*** (1 token)");
  assert.equal(rows.get("webhookHmacSecret")?.value, "***");
  assert.equal(
    rows.get("dataDir")?.source,
    "environment variable PERSISTENCE_CONFIG, persistenceConfig.path",
  );
  assert.doesNotMatch(JSON.stringify([...rows.values()]), /hush/);
});

test("a secret that is not set is shown as such", () => {
  assert.equal(describe({}).get("webhookHmacSecret")?.value, "");
});

test("help names every flag, variable and default", () => {
  const help = renderHelp();
  for (const name of settingNames) {
    assert.ok(help.includes(`  ${flagOf(name)}`), name);
    for (const variable of envNamesOf(name, rowOf(name).env)) assert.ok(help.includes(variable));
  }
  assert.match(help, /--config <path>/);
});
