import assert from "node:assert/strict";
import { test } from "node:test";
import { type LoadedConfig, loadConfig } from "./load.ts";
import { type RateLimitSetting, rateLimitSettings } from "./rate-limit-settings.ts";
import { envNamesOf, flagOf, rowOf, settingNames, settingTable } from "./setting-table.ts";
import type { Config, ProviderConfig, SettingName } from "./settings.ts";

interface Given {
  readonly argv?: readonly string[];
  readonly env?: Record<string, string>;
  readonly yaml?: string;
}

function load(given: Given): LoadedConfig {
  const env = given.yaml === undefined ? {} : { CODEQ_CONFIG_PATH: "codeq.yaml" };
  return loadConfig({
    argv: given.argv ?? [],
    env: { ...env, ...given.env },
    readFile: (path) => {
      if (path === "codeq.yaml" && given.yaml !== undefined) return given.yaml;
      throw Object.assign(new Error("no such file"), { code: "ENOENT" });
    },
  });
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

/** A value for every key that is not its default, as text and as what it becomes. */
const samples: { readonly [K in SettingName]: readonly [text: string, value: unknown] } = {
  port: ["9000", 9000],
  host: ["0.0.0.0", "0.0.0.0"],
  workerStreamAddr: [":9191", ":9191"],
  producerStreamAddr: ["127.0.0.1:9092", "127.0.0.1:9092"],
  tlsCertFile: ["./tls.crt", "./tls.crt"],
  tlsKeyFile: ["./tls.key", "./tls.key"],
  tlsClientCaFile: ["./clients.crt", "./clients.crt"],
  tlsClientAuth: ["optional", "optional"],
  insecure: ["true", true],
  connectionsMax: ["500", 500],
  headersTimeoutSeconds: ["5", 5],
  requestTimeoutSeconds: ["30", 30],
  keepAliveSeconds: ["10", 10],
  headerBytesMax: ["8192", 8192],
  streamsPerConnectionMax: ["8", 8],
  streamsMax: ["100", 100],
  env: ["dev", "dev"],
  logLevel: ["debug", "debug"],
  logFormat: ["text", "text"],
  timezone: ["Europe/Berlin", "Europe/Berlin"],
  shutdownGraceSeconds: ["30", 30],
  persistenceProvider: ["memory", "memory"],
  persistenceConfig: ['{"path":"./elsewhere"}', undefined],
  dataDir: ["./queue-data", "./queue-data"],
  durability: ["interval", "interval"],
  syncIntervalMs: ["250", 250],
  shards: ["4", 4],
  clusterMembers: ["a=127.0.0.1:7000", "a=127.0.0.1:7000"],
  nodeId: ["a", "a"],
  clusterSecret: ["0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"],
  clusterSecretOther: ["fedcba9876543210fedcba9876543210", "fedcba9876543210fedcba9876543210"],
  clusterBootstrap: ["a", "a"],
  clusterLogBytes: ["2147483648", 2_147_483_648],
  etcdUrls: ["https://127.0.0.1:2379", "https://127.0.0.1:2379"],
  etcdPrefix: ["other/", "other/"],
  etcdProgram: ["./etcd", "./etcd"],
  etcdHeartbeatMs: ["50", 50],
  etcdElectionMs: ["2000", 2000],
  clusterTlsCertFile: ["/etc/codeq/node.crt", "/etc/codeq/node.crt"],
  clusterTlsKeyFile: ["/etc/codeq/node.key", "/etc/codeq/node.key"],
  clusterTlsCaFile: ["/etc/codeq/ca.crt", "/etc/codeq/ca.crt"],
  clusterUrls: ["a=http://10.0.0.1:8080", "a=http://10.0.0.1:8080"],
  minFreeDiskBytes: ["1048576", 1_048_576],
  lsmCacheBytes: ["268435456", 268_435_456],
  lsmWriteBufferBytes: ["67108864", 67_108_864],
  flushBytes: ["1048576", 1_048_576],
  sweepBatchMax: ["1000", 1000],
  retentionSweepSeconds: ["60", 60],
  scrubIntervalSeconds: ["0", 0],
  tracingEnabled: ["true", true],
  tracingServiceName: ["queue", "queue"],
  tracingOtlpEndpoint: ["http://collector:4318", "http://collector:4318"],
  tracingOtlpProtocol: ["http/protobuf", "http/protobuf"],
  tracingOtlpInsecure: ["true", true],
  tracingOtlpHeaders: ["x-key=hush,y=2", "x-key=hush,y=2"],
  tracingSampleRatio: ["0.01", 0.01],
  metricsOtlpEnabled: ["true", true],
  metricsOtlpIntervalSeconds: ["5", 5],
  tracingResourceAttributes: ["region=eu", "region=eu"],
  artifactProvider: ["s3", "s3"],
  backupDir: ["./backups", "./backups"],
  localArtifactsDir: ["./artifacts", "./artifacts"],
  externalUrl: ["https://queue.example.com", "https://queue.example.com"],
  artifactBytesMax: ["4096", 4096],
  artifactUploadsMax: ["4", 4],
  artifactSweepSeconds: ["600", 600],
  s3Endpoint: ["http://127.0.0.1:7070", "http://127.0.0.1:7070"],
  s3Region: ["eu-central-1", "eu-central-1"],
  s3Bucket: ["codeq-artifacts", "codeq-artifacts"],
  s3Prefix: ["queue/", "queue/"],
  s3PathStyle: ["true", true],
  s3AccessKeyId: ["an-id", "an-id"],
  s3SecretAccessKey: ["a key", "a key"],
  s3SessionToken: ["a token", "a token"],
  s3Redirect: ["false", false],
  retentionSeconds: ["60", 60],
  idempotencySeconds: ["61", 61],
  idempotencyMode: ["first", "first"],
  dlqRetentionSeconds: ["0", 0],
  auditRetentionSeconds: ["3600", 3600],
  producerAuthProvider: ["static", "static"],
  producerAuthConfig: ['{"token":"p"}', undefined],
  workerAuthProvider: ["static", "static"],
  workerAuthConfig: ['{"token":"w"}', undefined],
  identityServiceUrl: ["https://id.example.com", "https://id.example.com"],
  identityJwksUrl: ["https://id.example.com/keys", "https://id.example.com/keys"],
  identityIssuer: ["https://id.example.com", "https://id.example.com"],
  identityAudience: ["codeq", "codeq"],
  workerJwksUrl: ["https://id.example.com/keys", "https://id.example.com/keys"],
  workerIssuer: ["https://id.example.com", "https://id.example.com"],
  workerAudience: ["workers", "workers"],
  allowedClockSkewSeconds: ["5", 5],
  allowProducerAsWorker: ["true", true],
  tenantFallback: ["shared", "shared"],
  allowRoleHeader: ["true", true],
  defaultLeaseSeconds: ["60", 60],
  maxAttemptsDefault: ["7", 7],
  backoffPolicy: ["linear", "linear"],
  backoffBaseSeconds: ["3", 3],
  backoffMaxSeconds: ["100", 100],
  webhookHmacSecret: ["hush", "hush"],
  webhookSecrets: [`{"default":["whsec_${"a".repeat(40)}"]}`, undefined],
  webhookAllowPrivateNetworks: ["true", true],
  webhookDisableAfterSeconds: ["3600", 3600],
  resultWebhookMaxAttempts: ["9", 9],
  subscriptionMinIntervalSeconds: ["7", 7],
  subscriptionCleanupIntervalSeconds: ["8", 8],
  resultWebhookBaseBackoffSeconds: ["1", 1],
  resultWebhookMaxBackoffSeconds: ["600", 600],
  memoryBytes: ["536870912", 536_870_912],
  bodyBytesMax: ["8388608", 8_388_608],
  payloadBytesMax: ["2048", 2048],
  lenientInput: ["true", true],
  createBatchMax: ["100", 100],
  claimBatchMax: ["10", 10],
  resultBatchMax: ["100", 100],
  metricsCommandsMax: ["5", 5],
  metricsToken: ["hush", "hush"],
  metricsPublic: ["false", false],
  console: ["false", false],
  consoleSecret: ["seal", "seal"],
  consoleTraceUrl: ["https://a.example/{traceId}", "https://a.example/{traceId}"],
  consoleLoginClientId: ["codeq-console", "codeq-console"],
  consoleLoginClientSecret: ["hush", "hush"],
  consoleLoginScopes: ["openid codeq:viewer", "openid codeq:viewer"],
  consoleLoginResource: ["urn:codeq", "urn:codeq"],
  quotas: ['{"default":{"pendingTasks":7}}', undefined],
  ...(Object.fromEntries(
    Object.keys(rateLimitSettings).map((name) => [name, ["30", 30] as const]),
  ) as Record<RateLimitSetting, readonly [string, number]>),
};

/** The older settings of identity servers mean something together only. */
const identityServers = {
  identityServiceUrl: "https://id.example.com",
  identityJwksUrl: "https://id.example.com/keys",
  identityIssuer: "https://id.example.com",
  identityAudience: "codeq",
  workerJwksUrl: "https://id.example.com/keys",
  workerIssuer: "https://id.example.com",
  workerAudience: "workers",
} as const;

const tlsFiles = {
  CODEQ_TLS_CERT_FILE: "other.crt",
  CODEQ_TLS_KEY_FILE: "other.key",
  CODEQ_TLS_CLIENT_CA_FILE: "other-ca.crt",
};

/** Half an auth or TLS configuration is refused, so the key under test gets its other half. */
/** Settings that have a meaning only together. */
const clusterOfOne = {
  clusterMembers: "a=127.0.0.1:7000",
  nodeId: "a",
  clusterSecret: "0123456789abcdef0123456789abcdef",
  clusterSecretOther: "fedcba9876543210fedcba9876543210",
  clusterBootstrap: "a",
  etcdUrls: "https://127.0.0.1:2379",
  clusterUrls: "a=http://127.0.0.1:8080",
  clusterTlsCertFile: "other.crt",
  clusterTlsKeyFile: "other.key",
  clusterTlsCaFile: "other-ca.crt",
};

const identityServerForPeople = {
  PRODUCER_AUTH_CONFIG: JSON.stringify({
    jwksUrl: "https://id.example.com/keys",
    issuer: "https://id.example.com",
    audience: "codeq",
  }),
  WORKER_AUTH_CONFIG: "other",
};

function otherHalf(name: SettingName): Record<string, string> {
  if (name.startsWith("tls")) {
    const { [envNamesOf(name)[0] as keyof typeof tlsFiles]: _, ...others } = tlsFiles;
    return others;
  }
  if (Object.hasOwn(clusterOfOne, name)) {
    const others = Object.entries(clusterOfOne).filter(([each]) => each !== name);
    return Object.fromEntries(
      others.map(([each, value]) => [envNamesOf(each as SettingName)[0] as string, value]),
    );
  }
  if (name === "producerAuthConfig") return { WORKER_AUTH_CONFIG: "other" };
  if (name === "consoleLoginClientId") return identityServerForPeople;
  if (name === "workerAuthConfig") return { PRODUCER_AUTH_CONFIG: "other" };
  const older = Object.keys(identityServers).filter((each) => each.startsWith(name.slice(0, 6)));
  if (name === "artifactProvider") {
    return { CODEQ_S3_BUCKET: "artifacts", AWS_ACCESS_KEY_ID: "a", AWS_SECRET_ACCESS_KEY: "b" };
  }
  if (!Object.hasOwn(identityServers, name)) return {};
  const rest = older.filter((each) => each !== name) as (keyof typeof identityServers)[];
  const auth = name.startsWith("worker") ? "PRODUCER_AUTH_CONFIG" : "WORKER_AUTH_CONFIG";
  return {
    [auth]: "other",
    ...Object.fromEntries(rest.map((each) => [rowOf(each).env?.[0], identityServers[each]])),
  };
}

function tokensOf(providers: readonly ProviderConfig[]): string[] {
  return providers.flatMap((each) =>
    each.type === "static" ? each.tokens.map(({ token }) => token) : [],
  );
}

function assertTaken(config: Config, name: SettingName, place: string): void {
  if (name === "persistenceConfig") {
    assert.equal(config.dataDir, "./elsewhere");
    assert.equal(config.sources.dataDir, `${place}, persistenceConfig.path`);
  } else if (name === "producerAuthConfig") {
    assert.deepEqual(tokensOf(config.producerAuth), ["p"]);
  } else if (name === "workerAuthConfig") {
    assert.deepEqual(tokensOf(config.workerAuth), ["w"]);
  } else if (name === "quotas") {
    assert.equal(config.quotas.default.pendingTasks, 7);
  } else if (name === "webhookSecrets") {
    assert.deepEqual(config.webhookSecrets.default, [`whsec_${"a".repeat(40)}`]);
  } else {
    assert.equal(config[name], samples[name][1]);
  }
  assert.equal(config.sources[name], place);
}

for (const name of settingNames) {
  test(`${name} is read from the file, from each of its variables and from its flag`, () => {
    const [text] = samples[name];
    const env = otherHalf(name);
    assertTaken(accepted({ yaml: `${name}: ${text}`, env }).config, name, "file codeq.yaml");
    const quoted = `${name}: ${JSON.stringify(text)}`;
    assertTaken(accepted({ yaml: quoted, env }).config, name, "file codeq.yaml");
    for (const variable of envNamesOf(name, rowOf(name).env)) {
      const { config } = accepted({ env: { ...env, [variable]: text } });
      assertTaken(config, name, `environment variable ${variable}`);
    }
    const flag = flagOf(name);
    assertTaken(accepted({ argv: [`${flag}=${text}`], env }).config, name, `flag ${flag}`);
    if (rowOf(name).parser.isSwitch) return;
    assertTaken(accepted({ argv: [flag, text], env }).config, name, `flag ${flag}`);
  });
}

test("every setting has its own flag and its own uniform variable", () => {
  const flags = new Set(settingNames.map(flagOf));
  assert.equal(flags.size, settingNames.length);
  assert.equal(flagOf("dlqRetentionSeconds"), "--dlq-retention-seconds");
  assert.equal(flagOf("raft.peerHTTPAddrs"), "--raft-peer-http-addrs");
  assert.equal(envNamesOf("dataDir")[0], "CODEQ_DATA_DIR");
});

test("every default is a value that the key itself accepts, unless it stands for nothing", () => {
  for (const name of settingNames) {
    const { initial, parser, initialInWords } = rowOf(name);
    if (initialInWords === undefined)
      assert.deepEqual(parser.parse(initial), { ok: true, value: initial });
  }
});

test("later sources win: default, file, environment, flag", () => {
  const yaml = "port: 1\nshards: 2\nlogLevel: warn";
  const env = { PORT: "3", SHARDS: "9", CODEQ_SHARDS: "4" };
  const { config } = accepted({ yaml, env, argv: ["--port", "5"] });
  assert.deepEqual(
    [config.port, config.shards, config.logLevel, config.logFormat],
    [5, 4, "warn", "json"],
  );
  assert.equal(config.sources.port, "flag --port");
  assert.equal(config.sources.shards, "environment variable CODEQ_SHARDS");
  assert.equal(config.sources.logLevel, "file codeq.yaml");
  assert.equal(config.sources.logFormat, "default");
});

test("the uniform variable wins over the contract's name", () => {
  const { config } = accepted({ env: { PORT: "1", CODEQ_PORT: "2" } });
  assert.equal(config.port, 2);
});

test("a variable that is set to nothing counts as not set", () => {
  const { config } = accepted({ env: { PORT: "", CODEQ_CONFIG_PATH: " " } });
  assert.equal(config.port, 8080);
});

test("a secret is read from the file that its variable names", () => {
  const files: Record<string, string> = { "/run/s": "hush\n", "/run/empty": "\n" };
  const readFile = (path: string): string => {
    const text = files[path];
    if (text === undefined) throw Object.assign(new Error("no"), { code: "ENOENT" });
    return text;
  };
  const of = (env: Record<string, string>) => loadConfig({ argv: [], env, readFile });
  const loaded = of({ CODEQ_WEBHOOK_HMAC_SECRET_FILE: "/run/s" });
  assert.ok(loaded.ok);
  assert.equal(loaded.config.webhookHmacSecret, "hush");
  const where = "environment variable CODEQ_WEBHOOK_HMAC_SECRET_FILE";
  assert.equal(loaded.config.sources.webhookHmacSecret, where);
  const cases: [Record<string, string>, string][] = [
    [{ CODEQ_WEBHOOK_HMAC_SECRET_FILE: "/run/none" }, "/run/none does not exist"],
    [{ CODEQ_WEBHOOK_HMAC_SECRET_FILE: "/run/empty" }, "/run/empty is empty"],
    [
      { CODEQ_WEBHOOK_HMAC_SECRET_FILE: "/run/s", WEBHOOK_HMAC_SECRET: "x" },
      "WEBHOOK_HMAC_SECRET is set as well",
    ],
  ];
  for (const [env, why] of cases) {
    const refused = of(env);
    assert.ok(!refused.ok);
    const [problem = ""] = refused.problems;
    assert.ok(problem.startsWith(`webhookHmacSecret (${where}): ${why}; `), problem);
    assert.ok(!problem.includes("hush"));
  }
  // What is no secret is written where others can read it.
  const open = of({ CODEQ_PORT_FILE: "/run/s" });
  assert.ok(open.ok && open.config.port === 8080);
});

test("CODEQ_PORT as Kubernetes sets it for a service is ignored with a warning", () => {
  const { config, warnings } = accepted({ env: { CODEQ_PORT: "tcp://10.0.0.1:8080", PORT: "81" } });
  assert.equal(config.port, 81);
  assert.match(warnings.join("\n"), /CODEQ_PORT looks like a Kubernetes service link/);
});

test("all problems are reported at once, each with key, place, value and fix", () => {
  const problems = problemsOf({
    yaml: "port: eighty\nbackofPolicy: fixed\ndurability: often",
    env: { SHARDS: "ignored", CODEQ_SHARDS: "0", ALLOW_PRODUCER_AS_WORKER: "perhaps" },
    argv: ["--log-leve=debug", "--timezone", "Mars/Olympus", "--retention-seconds", "stray"],
  });
  assert.deepEqual([...problems].sort(), [
    'allowProducerAsWorker (environment variable ALLOW_PRODUCER_AS_WORKER): "perhaps" is not ' +
      "accepted: expected true or false (also 1, yes, 0, no); for example ALLOW_PRODUCER_AS_WORKER=true",
    "backofPolicy (file codeq.yaml): there is no such key; did you mean backoffPolicy?",
    'durability (file codeq.yaml): "often" is not accepted: expected one of fsync, interval, os; ' +
      "for example durability: fsync",
    "flag --log-leve: there is no such flag; did you mean --log-level? (--help lists all)",
    'port (file codeq.yaml): "eighty" is not accepted: expected a whole number from 0 to 65535; ' +
      "for example port: 8080",
    'retentionSeconds (flag --retention-seconds): "stray" is not accepted: expected a whole number ' +
      "from 1 to 316224000; for example --retention-seconds=86400",
    'shards (environment variable CODEQ_SHARDS): "0" is not accepted: expected a whole number from ' +
      "1 to 64; for example CODEQ_SHARDS=1",
    'timezone (flag --timezone): "Mars/Olympus" is not accepted: expected an IANA time zone; ' +
      "for example --timezone=America/Sao_Paulo",
  ]);
});

test("a bad value is reported even when a later source replaces it", () => {
  assert.match(
    problemsOf({ yaml: "port: x", argv: ["--port=1"] })[0]!,
    /^port \(file codeq.yaml\)/,
  );
});

test("numbers are whole, in range, and nothing else", () => {
  for (const text of ["", "1.5", "1e3", "0x10", "99999", "-1", "NaN", "8080px"]) {
    assert.equal(load({ argv: [`--port=${text}`] }).ok, false, text);
  }
  for (const yaml of ["port: 1.5", "port: true", "port: [1]", "port: .inf", "port: 1e30"]) {
    assert.equal(load({ yaml }).ok, false, yaml);
  }
});

test("booleans are true, 1, yes, false, 0, no in any case, and a bare flag is true", () => {
  for (const [text, value] of [
    ["true", true],
    ["1", true],
    ["YES", true],
    ["false", false],
    ["0", false],
    ["No", false],
  ] as const) {
    const { config } = accepted({ env: { ALLOW_PRODUCER_AS_WORKER: text } });
    assert.equal(config.allowProducerAsWorker, value);
  }
  const { config } = accepted({ argv: ["--allow-producer-as-worker", "--port=1"] });
  assert.equal(config.allowProducerAsWorker, true);
  assert.equal(accepted({ yaml: "allowProducerAsWorker: yes" }).config.allowProducerAsWorker, true);
});

test("flags: twice, without a value, and arguments that are none are refused", () => {
  assert.deepEqual(
    problemsOf({ argv: ["--port=1", "--port=2", "--host", "--shards", "serve", "9"] }),
    [
      "flag --port is given twice; remove one of them",
      "flag --host needs a value: --host=<value>",
      "argument 6: expected a flag such as --port=8080",
      'shards (flag --shards): "serve" is not accepted: expected a whole number from 1 to 64; ' +
        "for example --shards=1",
    ],
  );
});

test("a config file that was named must exist, by flag or by variable", () => {
  assert.match(
    problemsOf({ env: { CODEQ_CONFIG_PATH: "gone.yaml" } })[0]!,
    /^config file gone.yaml \(environment variable CODEQ_CONFIG_PATH\) does not exist; correct/,
  );
  assert.match(problemsOf({ argv: ["--config", "gone.yaml"] })[0]!, /\(flag --config\) does not/);
});

test("the flag's file wins over the variable's, and an unreadable one says why", () => {
  const read: string[] = [];
  const result = loadConfig({
    argv: ["--config=b.yaml"],
    env: { CODEQ_CONFIG_PATH: "a.yaml" },
    readFile: (path) => {
      read.push(path);
      throw Object.assign(new Error("denied"), { code: "EACCES" });
    },
  });
  assert.deepEqual(read, ["b.yaml"]);
  assert.match(result.ok ? "" : result.problems[0]!, /cannot be read \(EACCES\)/);
});

test("a file that is empty is fine; one that is not a map or not YAML says where", () => {
  accepted({ yaml: "" });
  accepted({ yaml: "# nothing\n" });
  accepted({ yaml: "port:\nraft:\n" });
  assert.match(problemsOf({ yaml: "- a\n- b" })[0]!, /expected a map of keys/);
  assert.match(problemsOf({ yaml: "port: 1\nport: 2" })[0]!, /line 2: not valid YAML \(DUPLICATE/);
  assert.match(problemsOf({ yaml: "a: *b" })[0]!, /codeq.yaml/);
});

test("a misspelt variable of ours is an error; variables of other programs are not", () => {
  assert.deepEqual(problemsOf({ env: { CODEQ_DURABILTY: "os" } }), [
    "environment variable CODEQ_DURABILTY: there is no such setting; did you mean CODEQ_DURABILITY?",
  ]);
  accepted({
    env: {
      CODEQ_BASE_URL: "x",
      CODEQ_ADMIN: "x",
      CODEQ_PROFILE: "x",
      CODEQ_PRODUCER_TOKEN: "x",
      CODEQ_WORKER_TOKEN: "x",
      CODEQ_CONFIG_DIR: "x",
      CODEQ_SERVICE_HOST: "x",
      CODEQ_PORT_8080_TCP: "x",
      CODEQ_PORT_8080_TCP_PORT: "x",
      CODEQ_IAM_API_KEY: "x",
    },
  });
});

test("values between keys must fit each other", () => {
  const yaml = "payloadBytesMax: 3000000\nbodyBytesMax: 2000000\nbackoffBaseSeconds: 1000";
  assert.deepEqual(problemsOf({ yaml }), [
    "backoffBaseSeconds: 1000 is more than backoffMaxSeconds, which is 900; lower " +
      "backoffBaseSeconds or raise backoffMaxSeconds",
    "payloadBytesMax: 3000000 is more than bodyBytesMax, which is 2000000; lower payloadBytesMax " +
      "or raise bodyBytesMax",
  ]);
});

test("artifacts go under the data directory unless told otherwise", () => {
  assert.match(accepted({ argv: ["--data-dir=/srv/q"] }).config.localArtifactsDir, /q.artifacts$/);
});

test("an environment name that is a path, as ENV is in some shells, is refused with the fix", () => {
  assert.match(problemsOf({ env: { ENV: "/etc/shrc" } })[0]!, /^env \(environment variable ENV\)/);
  assert.equal(settingTable.env.initial, "dev");
});

test("streams listen on the ports of the Go server unless they are turned off", () => {
  const { config } = accepted({});
  assert.deepEqual([config.workerStreamAddr, config.producerStreamAddr], [":9091", ":9092"]);
  const off = accepted({ env: { WORKER_STREAM_ADDR: "off" } }).config;
  assert.equal(off.workerStreamAddr, "off");
  for (const address of ["[::1]:0", "localhost:65535", ":1"])
    accepted({ env: { WORKER_STREAM_ADDR: address } });
  for (const address of [":65536", "9091", "::1:9", "a b:1", "http://x:1", "on"]) {
    const [problem] = problemsOf({ env: { WORKER_STREAM_ADDR: address } });
    assert.match(problem ?? "", /^workerStreamAddr .* with a port from 0 to 65535; for example/);
  }
});

test("one address for both streams is a problem, unless it is off or any port", () => {
  const same = (address: string): Given => ({
    env: { WORKER_STREAM_ADDR: address, PRODUCER_STREAM_ADDR: address },
  });
  assert.match(
    problemsOf(same(":9092"))[0] ?? "",
    /^producerStreamAddr: :9092 .* one of them off$/,
  );
  accepted(same("off"));
  accepted(same(":0"));
});

test("payloads that no stream carries are warned of where there are streams", () => {
  const bytes = (max: number) => ({ CODEQ_PAYLOAD_BYTES_MAX: String(max) });
  const warnings = (env: Record<string, string>) =>
    accepted({ env }).warnings.filter((each) => each.startsWith("payloadBytesMax"));
  assert.equal(warnings(bytes(4_128_768)).length, 0);
  assert.equal(warnings(bytes(4_128_769)).length, 1);
  const off = { WORKER_STREAM_ADDR: "off", PRODUCER_STREAM_ADDR: "off" };
  assert.equal(warnings({ ...bytes(4_128_769), ...off }).length, 0);
});

test("object storage needs a bucket and keys", () => {
  const problems = problemsOf({ env: { CODEQ_ARTIFACT_PROVIDER: "s3" } });
  assert.deepEqual(problems, [
    "s3Bucket: required because artifactProvider is s3",
    "s3AccessKeyId: required because artifactProvider is s3",
    "s3SecretAccessKey: required because artifactProvider is s3",
  ]);
});

test("a development server that only this machine reaches may post to private addresses", () => {
  const auth = '{"token":"a-token-of-32-characters-or-more-","subject":"s"}';
  const prod = [
    "--env=prod",
    "--webhook-hmac-secret=s",
    `--producer-auth-config=${auth}`,
    `--worker-auth-config=${auth}`,
  ];
  const allowed = (...argv: string[]): boolean =>
    accepted({ argv }).config.webhookAllowPrivateNetworks;
  assert.equal(allowed(), true);
  assert.equal(allowed("--host=0.0.0.0"), false);
  assert.equal(allowed("--worker-stream-addr=0.0.0.0:9091"), false);
  assert.equal(allowed("--webhook-allow-private-networks=false"), false);
  assert.equal(allowed(...prod), false);
});
