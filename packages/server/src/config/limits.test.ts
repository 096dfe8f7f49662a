/** Rate limits and quotas as operators write them: what is taken, and what is refused in which words. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { describeConfig } from "./describe.ts";
import { type LoadedConfig, loadConfig } from "./load.ts";
import { quotaOf } from "./quotas.ts";
import { type RateLimitSetting, rateLimitSettings } from "./rate-limit-settings.ts";
import type { Config } from "./settings.ts";

function load(yaml: string, env: Record<string, string> = {}): LoadedConfig {
  return loadConfig({ argv: ["--config=codeq.yaml"], env, readFile: () => yaml });
}

function accepted(
  yaml: string,
  env: Record<string, string> = {},
): { config: Config; warnings: readonly string[] } {
  const loaded = load(yaml, env);
  assert.ok(loaded.ok, loaded.ok ? "" : loaded.problems.join("\n"));
  return loaded;
}

function problemsOf(yaml: string): readonly string[] {
  const loaded = load(yaml);
  assert.ok(!loaded.ok, `accepted: ${yaml}`);
  return loaded.problems;
}

const everything = Number.POSITIVE_INFINITY;

test("nothing but the number of queues is limited unless somebody says so", () => {
  const { config } = accepted("");
  for (const name of Object.keys(rateLimitSettings) as RateLimitSetting[])
    assert.equal(config[name], 0);
  assert.deepEqual(quotaOf(config.quotas, "acme"), {
    pendingTasks: everything,
    storedBytes: everything,
    requestsPerSecond: everything,
    concurrentLeases: everything,
    queues: 10_000,
    lanes: 100_000,
  });
});

test("rate limits are maps of the file, as in files of the Go server, and variables", () => {
  const yaml = `
rateLimit:
  producer: { requestsPerMinute: 600, burstSize: 10 }
  worker: { tenantRequestsPerMinute: "1200", tenantBurstSize: "20" }
`;
  const env = { RATE_LIMIT_ADMIN_REQUESTS_PER_MINUTE: "6", CODEQ_RATE_LIMIT_ADMIN_BURST_SIZE: "2" };
  const { config, warnings } = accepted(yaml, env);
  assert.equal(config["rateLimit.producer.requestsPerMinute"], 600);
  assert.equal(config["rateLimit.producer.burstSize"], 10);
  assert.equal(config["rateLimit.worker.tenantRequestsPerMinute"], 1200);
  assert.equal(config["rateLimit.worker.tenantBurstSize"], 20);
  assert.equal(config["rateLimit.admin.requestsPerMinute"], 6);
  assert.equal(config["rateLimit.admin.burstSize"], 2);
  assert.deepEqual(
    warnings.filter((line) => line.includes("rateLimit")),
    [],
  );
});

test("half a rate limit limits nothing, and says so", () => {
  const yaml = `
rateLimit:
  producer: { requestsPerMinute: 600 }
  webhook: { tenantBurstSize: 5, burstSize: 0 }
`;
  const { warnings } = accepted(yaml);
  assert.deepEqual(
    warnings.filter((line) => line.includes("rateLimit")),
    [
      "rateLimit.producer.requestsPerMinute has no effect without rateLimit.producer.burstSize; " +
        "set both to limit the rate",
      "rateLimit.webhook.tenantBurstSize has no effect without " +
        "rateLimit.webhook.tenantRequestsPerMinute; set both to limit the rate",
    ],
  );
});

test("a tenant's own numbers replace the default one by one, and 0 lifts it", () => {
  const { config } = accepted(`
quotas:
  default: { pendingTasks: 100, storedBytes: "5000", concurrentLeases: 4 }
  tenants:
    acme: { pendingTasks: 1000, concurrentLeases: 0 }
    globex: {}
    initech:
`);
  const { quotas } = config;
  assert.deepEqual(quotaOf(quotas, "acme"), {
    pendingTasks: 1000,
    storedBytes: 5000,
    requestsPerSecond: everything,
    concurrentLeases: everything,
    queues: 10_000,
    lanes: 100_000,
  });
  for (const tenant of ["globex", "initech", "anybody"]) {
    assert.deepEqual(quotaOf(quotas, tenant), quotas.default);
  }
  const shown = describeConfig(config).find(({ key }) => key === "quotas")?.value;
  assert.equal(
    shown,
    "pendingTasks 100, storedBytes 5000, concurrentLeases 4, 3 with their own quotas",
  );
});

test("quotas come from the environment as JSON", () => {
  const { config } = accepted("", { CODEQ_QUOTAS: '{"tenants":{"acme":{"requestsPerSecond":3}}}' });
  assert.equal(quotaOf(config.quotas, "acme").requestsPerSecond, 3);
  assert.equal(quotaOf(config.quotas, "globex").requestsPerSecond, everything);
});

test("absurd quotas are refused, each with the place and what was expected", () => {
  const cases: readonly (readonly [yaml: string, problem: RegExp])[] = [
    ["quotas: 5", /expected a map or JSON object with default and tenants/],
    ["quotas: [1]", /expected a map or JSON object/],
    ["quotas: '{'", /expected a map or JSON object/],
    [
      "quotas: { defaults: {} }",
      /defaults \(did you mean default\?\) is not one of default, tenants/,
    ],
    ["quotas: { default: 5 }", /default: expected a map with pendingTasks/],
    ["quotas: { default: { pending: 5 } }", /default: a field is not one of pendingTasks/],
    ["quotas: { default: { pendingTask: 5 } }", /pendingTask \(did you mean pendingTasks\?\)/],
    ["quotas: { default: { pendingTasks: -1 } }", /default\.pendingTasks: expected a whole number/],
    ["quotas: { default: { pendingTasks: 1.5 } }", /default\.pendingTasks: expected a whole/],
    ["quotas: { default: { pendingTasks: many } }", /default\.pendingTasks: expected a whole/],
    ["quotas: { default: { pendingTasks: .inf } }", /default\.pendingTasks: expected a whole/],
    ["quotas: { default: { storedBytes: 1e300 } }", /default\.storedBytes: expected a whole/],
    ["quotas: { default: { storedBytes: 10GB } }", /default\.storedBytes: expected a whole/],
    ["quotas: { default: { requestsPerSecond: true } }", /requestsPerSecond: expected a whole/],
    ["quotas: { default: { concurrentLeases: [] } }", /concurrentLeases: expected a whole/],
    ["quotas: { tenants: [acme] }", /tenants: expected a map of tenants/],
    ["quotas: { tenants: { ACME: {} } }", /tenants: "ACME" is not a valid tenant/],
    ["quotas: { tenants: { 7: {} } }", /tenants: "7" is not a valid tenant/],
    ["quotas: { tenants: { acme: 7 } }", /tenants\.acme: expected a map/],
    ["quotas: { tenants: { acme: { leases: 7 } } }", /tenants\.acme: a field is not one of/],
  ];
  for (const [yaml, problem] of cases) {
    const problems = problemsOf(yaml);
    assert.equal(problems.length, 1, yaml);
    assert.match(problems[0]!, problem);
    assert.match(problems[0]!, /^quotas \(file codeq.yaml\): .*; for example quotas: /s);
  }
});

test("absurd rate limits are refused, each with its key", () => {
  for (const value of ["-1", "1.5", "unlimited", "60/min", "60000001", "true", "[]", "{}"]) {
    const problems = problemsOf(`rateLimit: { producer: { requestsPerMinute: ${value} } }`);
    assert.match(problems[0]!, /^rateLimit\.producer\.requestsPerMinute.* \(file codeq.yaml\): /);
  }
  assert.deepEqual(problemsOf("rateLimit: { producers: { burstSize: 1 } }"), [
    "rateLimit.producers (file codeq.yaml): there is no such key",
  ]);
  assert.match(
    problemsOf("rateLimit: { producer: { burst: 1 } }")[0]!,
    /^rateLimit\.producer\.burst \(file codeq.yaml\): there is no such key/,
  );
});

test("whatever is written as quotas is taken or refused, never thrown", () => {
  const number = fc.oneof(fc.integer(), fc.double(), fc.string(), fc.constant(null));
  const quota = fc.oneof(
    fc.dictionary(fc.constantFrom("pendingTasks", "storedBytes", "__proto__", "x"), number),
    fc.anything(),
  );
  const shape = fc.oneof(
    fc.record(
      { default: quota, tenants: fc.oneof(fc.dictionary(fc.string(), quota), fc.anything()) },
      { requiredKeys: [] },
    ),
    fc.anything(),
  );
  fc.assert(
    fc.property(shape, (written) => {
      const text = JSON.stringify(written) ?? "";
      const loaded = loadConfig({ argv: [], env: { CODEQ_QUOTAS: text }, readFile: () => "" });
      if (!loaded.ok) return;
      const { quotas } = loaded.config;
      for (const each of [quotas.default, ...quotas.tenants.values()]) {
        for (const most of Object.values(each)) assert.ok(most > 0);
      }
    }),
    { numRuns: 500 },
  );
});
