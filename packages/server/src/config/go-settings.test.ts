import assert from "node:assert/strict";
import { test } from "node:test";
import { inactiveSettings } from "./go-settings.ts";
import { type LoadedConfig, loadConfig } from "./load.ts";
import type { Config, StaticTokenConfig } from "./settings.ts";

interface Given {
  readonly argv?: readonly string[];
  readonly env?: Record<string, string>;
  readonly yaml?: string;
}

function load({ argv = [], env = {}, yaml }: Given): LoadedConfig {
  const withFile = yaml === undefined ? env : { ...env, CODEQ_CONFIG_PATH: "codeq.yaml" };
  return loadConfig({ argv, env: withFile, readFile: () => yaml ?? "" });
}

function accepted(given: Given): { config: Config; warnings: readonly string[] } {
  const result = load(given);
  assert.ok(result.ok, result.ok ? "" : result.problems.join("\n"));
  return result;
}

function problemsOf(given: Given): readonly string[] {
  const result = load(given);
  assert.ok(!result.ok, "expected problems");
  return result.problems;
}

function tokensOf(providers: Config["producerAuth"]): readonly StaticTokenConfig[] {
  return providers.flatMap((each) => (each.type === "static" ? each.tokens : []));
}

const sixScopes = ["claim", "heartbeat", "abandon", "nack", "result", "subscribe"].map(
  (verb) => `codeq:${verb}`,
);

test("O2: the three blobs are read as maps of the file", () => {
  const { config } = accepted({
    yaml: `
persistenceProvider: pebble
persistenceConfig: { path: ./codeq-pebble, fsyncOnCommit: true, numShards: 4 }
producerAuthProvider: static
producerAuthConfig:
  token: one
  subject: acme
  raw: { role: ADMIN, tenantId: acme }
workerAuthProvider: static
workerAuthConfig:
  - { token: two, scopes: ["codeq:claim"], eventTypes: ["*"], raw: { tenantId: acme } }
  - { token: three, email: a@b.c }
`,
  });
  assert.equal(config.persistenceProvider, "embedded");
  assert.deepEqual(
    [config.dataDir, config.durability, config.shards],
    ["./codeq-pebble", "fsync", 4],
  );
  assert.deepEqual(tokensOf(config.producerAuth), [
    {
      token: "one",
      subject: "acme",
      email: "",
      scopes: [],
      eventTypes: [],
      raw: { role: "ADMIN", tenantId: "acme" },
    },
  ]);
  assert.deepEqual(
    tokensOf(config.workerAuth).map((each) => [each.token, each.subject, each.email, each.scopes]),
    [
      ["two", "static", "", ["codeq:claim"]],
      ["three", "static", "a@b.c", []],
    ],
  );
});

test("O2: the three blobs are read as JSON text, from the file and from the environment", () => {
  const blob = '{"path":"./p","numShards":2}';
  for (const given of [
    { yaml: `persistenceConfig: '${blob}'\nproducerAuthConfig: '"a"'\nworkerAuthConfig: b` },
    {
      env: {
        PERSISTENCE_CONFIG: blob,
        PRODUCER_AUTH_CONFIG: '"a"',
        WORKER_AUTH_CONFIG: '{"token":"b"}',
      },
    },
  ]) {
    const { config } = accepted(given);
    assert.deepEqual([config.dataDir, config.shards], ["./p", 2]);
    assert.equal(tokensOf(config.producerAuth)[0]?.token, "a");
    assert.equal(tokensOf(config.workerAuth)[0]?.token, "b");
  }
});

test("O3: env, timezone, log level and format, lease and inspect limit have variables", () => {
  const { config } = accepted({
    env: {
      ENV: "staging",
      TIMEZONE: "UTC",
      LOG_LEVEL: "WARN",
      LOG_FORMAT: "text",
      DEFAULT_LEASE_SECONDS: "42",
      PRODUCER_AUTH_CONFIG: "p",
      WORKER_AUTH_CONFIG: "w",
      WEBHOOK_HMAC_SECRET: "s",
    },
  });
  assert.equal(config.env, "staging");
  assert.equal(config.timezone, "UTC");
  assert.deepEqual([config.logLevel, config.logFormat], ["warn", "text"]);
  assert.equal(config.defaultLeaseSeconds, 42);
});

test("O6: no configuration at all starts an embedded store with the development tokens", () => {
  const { config, warnings } = accepted({});
  assert.equal(config.persistenceProvider, "embedded");
  assert.deepEqual([config.host, config.port, config.env], ["127.0.0.1", 8080, "dev"]);
  assert.deepEqual([config.durability, config.dataDir, config.shards], ["fsync", "./data", 1]);
  const common = { token: "dev-token", subject: "static", email: "" };
  assert.deepEqual(tokensOf(config.producerAuth), [
    { ...common, scopes: [], eventTypes: [], raw: { role: "ADMIN", tenantId: "dev-tenant" } },
  ]);
  assert.deepEqual(tokensOf(config.workerAuth), [
    { ...common, scopes: sixScopes, eventTypes: ["*"], raw: { tenantId: "dev-tenant" } },
  ]);
  assert.deepEqual(warnings, []);
});

test("S2: outside dev, missing tokens and a missing webhook secret are errors that say what to set", () => {
  const problems = problemsOf({ env: { ENV: "prod" } });
  assert.equal(problems.length, 3);
  assert.match(problems[0]!, /^producerAuthConfig: .*env is prod; set .*PRODUCER_AUTH_CONFIG/);
  assert.match(problems[1]!, /^workerAuthConfig: .*WORKER_AUTH_CONFIG.*allowProducerAsWorker/);
  assert.match(problems[2]!, /^webhookHmacSecret: required because env is prod; set WEBHOOK_HMAC/);
});

test("redis is refused with the reason and the way out; pebble means embedded", () => {
  assert.match(
    problemsOf({ env: { PERSISTENCE_PROVIDER: "redis" } })[0]!,
    /"redis" is not accepted: this server keeps tasks in its own embedded store .* set dataDir/,
  );
  assert.equal(
    accepted({ env: { PERSISTENCE_PROVIDER: "pebble" } }).config.persistenceProvider,
    "embedded",
  );
  assert.match(accepted({ argv: ["--persistence-provider=memory"] }).warnings.join(), /is lost/);
});

test("persistenceConfig stands where it is written: a later dataDir wins, an equal one conflicts", () => {
  const yaml = "persistenceConfig: { path: ./old, numShards: 2 }";
  assert.equal(accepted({ yaml, argv: ["--data-dir=./new"] }).config.dataDir, "./new");
  assert.equal(accepted({ yaml, argv: ["--data-dir=./new"] }).config.shards, 2);
  assert.match(problemsOf({ yaml: `${yaml}\ndataDir: ./new` })[0]!, /remove one of them/);
});

test("fsyncOnCommit asks for a durability, which a durability beside it contradicts", () => {
  for (const [asked, durability] of [
    ["false", "os"],
    ["true", "fsync"],
  ] as const) {
    const yaml = `persistenceConfig: { fsyncOnCommit: ${asked} }`;
    const { config, warnings } = accepted({ yaml });
    assert.equal(config.durability, durability);
    assert.deepEqual(warnings, []);
    assert.match(problemsOf({ yaml: `${yaml}\ndurability: interval` })[0]!, /remove one of them/);
  }
});

test("the persistence blob refuses unknown fields and bad values without repeating them", () => {
  for (const blob of [
    '{"addr":"x","password":"hush"}',
    '{"path":""}',
    '{"numShards":0}',
    '{"fsyncOnCommit":"hush"}',
    "hush",
    "[]",
    '{"path":"hush',
  ]) {
    const problems = problemsOf({ env: { PERSISTENCE_CONFIG: blob } });
    assert.equal(problems.length, 1, blob);
    assert.doesNotMatch(problems[0]!, /hush/);
  }
});

test("secrets never appear in messages, wherever they stand", () => {
  const secret = "hush-hush";
  const given: Given[] = [
    { yaml: `webhookHmacSecret: [${secret}]` },
    { yaml: `webhookHmacSecret: "${secret}\n  broken: : ${secret}` },
    { yaml: `producerAuthConfig: { token: ["${secret}"] }` },
    { yaml: `workerAuthConfig: '{"token":"${secret}'` },
    { yaml: `workerAuthConfig: [${secret}, 1]` },
    { env: { PRODUCER_AUTH_CONFIG: `{"token":"${secret}"` } },
    { argv: [`--webhok-hmac-secret=${secret}`] },
    { argv: ["--webhok-hmac-secret", secret] },
    { argv: ["--allow-producer-as-worker", secret] },
    { env: { CODEQ_WEBHOOK_HMAC_SECRT: secret } },
  ];
  for (const one of given) {
    const problems = problemsOf(one);
    assert.doesNotMatch(problems.join("\n"), /hush/, JSON.stringify(one));
  }
  const { warnings } = accepted({
    argv: ["--webhook-hmac-secret", secret],
    yaml: `redisPassword: ${secret}\nidentityServiceApiKey: ${secret}`,
  });
  assert.doesNotMatch(warnings.join("\n"), /hush/);
  assert.match(warnings.join("\n"), /--webhook-hmac-secret shows a secret to every user/);
});

test("settings without effect load from a file with one warning each", () => {
  const { warnings } = accepted({
    yaml: `
redisAddr: localhost:6379
raft: { enabled: false, peers: { a: "x:1" }, peerHTTPAddrs: { a: "x:2" } }
cluster: { enabled: false, nodes: [{ id: a, grpcAddr: ":1" }] }
sharding: { enabled: false, backends: { default: { address: x, poolSize: 1 } } }
`,
  });
  const later = warnings.filter((line) => line.endsWith("remove it"));
  assert.deepEqual(later.map((line) => line.split(" ")[0]).sort(), [
    "cluster.nodes",
    "raft.peerHTTPAddrs",
    "raft.peers",
    "redisAddr",
    "sharding.backends",
  ]);
});

test("settings without effect load from every variable with one warning each", () => {
  for (const row of inactiveSettings) {
    for (const variable of row.env) {
      const value = row.isRefusedWhenOn === undefined ? "x" : "false";
      const { warnings } = accepted({ env: { [variable]: value } });
      assert.equal(warnings.length, row.isRefusedWhenOn === undefined ? 1 : 0, variable);
    }
  }
});

test("raft, cluster and sharding cannot be switched on and be ignored", () => {
  for (const group of ["raft", "cluster", "sharding"]) {
    for (const value of ["true", "1", "maybe"]) {
      const problems = problemsOf({ yaml: `${group}: { enabled: ${value} }` });
      assert.match(problems[0]!, new RegExp(`^${group}.enabled .*remove it`));
    }
  }
  assert.equal(problemsOf({ env: { RAFT_ENABLED: "true", CLUSTER_ENABLED: "yes" } }).length, 2);
});

test("nested names are checked too, and settings without effect have no flags", () => {
  assert.deepEqual(problemsOf({ yaml: "raft: { enabeld: true }\nrateLimit: 5" }), [
    "raft.enabeld (file codeq.yaml): there is no such key; did you mean raft.enabled?",
    "rateLimit (file codeq.yaml): expected a map of keys",
  ]);
  assert.deepEqual(problemsOf({ argv: ["--raft-enabled=true"] }), [
    "flag --raft-enabled is a setting of the Go server, and has no flag here; remove it",
  ]);
});
