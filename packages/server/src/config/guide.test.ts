import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { loadConfig } from "./load.ts";

const guide = join(import.meta.dirname, "../../../../docs/guide/access.md");
const examples = [...readFileSync(guide, "utf8").matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(
  (match) => match[1] ?? "",
);

function load(yaml: string): ReturnType<typeof loadConfig> {
  const env = { CODEQ_CONFIG_PATH: "codeq.yaml" };
  return loadConfig({ argv: [], env, readFile: () => yaml });
}

test("the guide has an example of each provider", () => {
  const shapes = examples.map((yaml) => {
    const loaded = load(yaml);
    return loaded.ok ? loaded.config.producerAuth.map(({ type }) => type).join("+") : "bad";
  });
  assert.deepEqual(shapes, ["static", "jwks", "jwks", "jwks+static", "static"]);
});

for (const [index, yaml] of examples.entries()) {
  test(`example ${index + 1} of the guide to access is a configuration that starts`, () => {
    const loaded = load(yaml);
    assert.ok(loaded.ok, loaded.ok ? "" : loaded.problems.join("\n"));
    if (loaded.config.env !== "dev") assert.deepEqual(loaded.warnings, []);
  });
}

test("the times that the guide says are the defaults are what they are", () => {
  const [written, defaults] = [examples[1] ?? "", examples[2] ?? ""].map(load);
  assert.ok(written?.ok && defaults?.ok);
  const [workers] = written.config.workerAuth;
  const [older] = defaults.config.workerAuth;
  assert.deepEqual({ ...workers, type: "" }, { ...older, type: "" });
});
