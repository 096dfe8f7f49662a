/** What docs/guide/limits.md shows is what the server takes and answers. */
import assert from "node:assert/strict";
import test from "node:test";
import { loadConfig } from "../../packages/server/src/config/load.ts";
import { quotaOf } from "../../packages/server/src/config/quotas.ts";
import {
  type RateLimitSetting,
  rateLimitSettings,
} from "../../packages/server/src/config/rate-limit-settings.ts";
import type { Config } from "../../packages/server/src/config/settings.ts";
import { metricTable } from "../../packages/server/src/telemetry/metrics.ts";
import { setup } from "../contract/setup.ts";
import { blocksOf, type Mark } from "./marks.ts";
import { readPage } from "./pages.ts";

const page = "docs/guide/limits.md";
const guide = readPage(page);

/** The examples with this mark. */
function blocks(mark: Mark): string[] {
  return blocksOf(mark, page).map(({ text }) => text.trim());
}

function load(yaml: string): Config {
  const loaded = loadConfig({ argv: ["--config=x"], env: {}, readFile: () => yaml });
  assert.ok(loaded.ok, loaded.ok ? "" : loaded.problems.join("\n"));
  assert.deepEqual(
    loaded.warnings.filter((line) => /rateLimit|quota/.test(line)),
    [],
  );
  return loaded.config;
}

const [rates, quotas] = blocks("yaml").map(load) as [Config, Config];

/** The limits of a configuration, for a server of the tests. */
function limitsOf(config: Config): Partial<Config> {
  const names = Object.keys(rateLimitSettings) as RateLimitSetting[];
  const limits = Object.fromEntries(names.map((name) => [name, config[name]]));
  return { ...limits, quotas: config.quotas };
}

const task = { command: "render", payload: {} };

test("the example of rate limits gives the fields and the refusal that stand there", async (t) => {
  const server = await setup(t, { settings: limitsOf(rates) });
  const first = await server.post("/tasks", task, "producer-acme");
  assert.deepEqual(blocks("text headers"), [
    `RateLimit-Policy: ${first.headers["ratelimit-policy"]}\nRateLimit: ${first.headers["ratelimit"]}`,
  ]);
  const tasks = Array(49).fill(task);
  assert.equal((await server.post("/tasks/batch", { tasks }, "producer-acme")).status, 200);
  const refused = await server.post("/tasks", task, "producer-acme");
  assert.equal(refused.status, 429);
  assert.deepEqual(blocks("json refused"), [refused.text]);
});

test("the example of quotas means what its comments say", () => {
  const own = quotaOf(quotas.quotas, "acme");
  assert.equal(own.pendingTasks, 1_000_000);
  assert.equal(own.concurrentLeases, quotas.quotas.default.concurrentLeases);
  assert.equal(quotaOf(quotas.quotas, "internal").requestsPerSecond, Number.POSITIVE_INFINITY);
});

test("the example of an exceeded quota is the answer that a small tenant gets", async (t) => {
  const small = { ...quotaOf(quotas.quotas, "trial-17") };
  assert.equal(small.pendingTasks, 100);
  const server = await setup(t, { settings: { quotas: { default: small, tenants: new Map() } } });
  const tasks = Array(100).fill(task);
  assert.equal((await server.post("/tasks/batch", { tasks }, "producer-acme")).status, 200);
  const refused = await server.post("/tasks", task, "producer-acme");
  assert.equal(refused.status, 429);
  assert.deepEqual(blocks("json over"), [refused.text]);
});

test("variables and metrics that the guide names exist", () => {
  const variables = Object.values(rateLimitSettings).flatMap(({ env }) => env ?? []);
  for (const [name] of guide.matchAll(/RATE_LIMIT_\w+/g)) assert.ok(variables.includes(name), name);
  const metrics = new Map(Object.values(metricTable).map((row) => [row.name as string, row]));
  const named = [...guide.matchAll(/`(codeq_\w+)\{([\w,]+)\}`/g)];
  assert.equal(named.length, 3);
  for (const [, name = "", labels = ""] of named) {
    assert.deepEqual(
      metrics.get(name)?.labels.map((label) => label.name),
      labels.split(","),
    );
  }
});
