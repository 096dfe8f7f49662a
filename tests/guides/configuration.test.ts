/** Every configuration in the pages is one with which the server starts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { loadConfig } from "../../packages/server/src/config/load.ts";
import { blocksOf } from "./marks.ts";

function load(yaml: string): ReturnType<typeof loadConfig> {
  const env = { CODEQ_CONFIG_PATH: "codeq.yaml" };
  return loadConfig({ argv: [], env, readFile: () => yaml });
}

/** Secrets that a page keeps beside the file come from the environment. */
function withSecrets(yaml: string): ReturnType<typeof loadConfig> {
  const env = {
    CODEQ_CONFIG_PATH: "codeq.yaml",
    WEBHOOK_HMAC_SECRET: "long and random",
    PRODUCER_AUTH_CONFIG: '{"token":"a-producer-of-the-test"}',
    WORKER_AUTH_CONFIG: '{"token":"a-worker-of-the-test","eventTypes":["*"]}',
  };
  return loadConfig({ argv: [], env, readFile: () => yaml });
}

for (const { page, line, text } of blocksOf("yaml")) {
  test(`${page}:${line} is a configuration that starts`, () => {
    const alone = load(text);
    const loaded = alone.ok ? alone : withSecrets(text);
    assert.ok(loaded.ok, loaded.ok ? "" : loaded.problems.join("\n"));
    if (loaded.config.env !== "dev") assert.deepEqual(loaded.warnings, []);
  });
}

const access = blocksOf("yaml", "docs/guide/access.md").map(({ text }) => text);

test("the guide to access has an example of each provider", () => {
  const shapes = access.map((yaml) => {
    const loaded = load(yaml);
    return loaded.ok ? loaded.config.producerAuth.map(({ type }) => type).join("+") : "bad";
  });
  assert.deepEqual(shapes, ["static", "jwks", "jwks", "jwks+static", "static"]);
});

test("the times that the guide to access says are the defaults are what they are", () => {
  const [written, defaults] = [access[1] ?? "", access[2] ?? ""].map(load);
  assert.ok(written?.ok && defaults?.ok);
  const [workers] = written.config.workerAuth;
  const [older] = defaults.config.workerAuth;
  assert.deepEqual({ ...workers, type: "" }, { ...older, type: "" });
});
