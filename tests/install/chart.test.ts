/**
 * The Helm chart and the compose file: values that are refused, and objects that Kubernetes and Compose
 * take without a complaint. What they would start is the subject of image.test.ts.
 */
import assert from "node:assert/strict";
import { type ExecFileException, execFile, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { loadConfig, parseDocument } from "../../packages/server/src/exports/config/index.ts";
import { root, temporaryDirectory } from "../e2e/server-process.ts";
import { imageOf } from "./dockerfile.ts";
import { composeReader, objectReader, schemaOf } from "./object-schemas.ts";
import { runBlocks } from "./page-blocks.ts";

const chart = join(root, "deploy/helm/codeq");
const compose = join(root, "deploy/compose/compose.yaml");
const composeCluster = join(root, "deploy/compose/cluster.yaml");
const image = imageOf(readFileSync(join(root, "deploy/image/Dockerfile"), "utf8"));

const building = temporaryDirectory();
after(() => building.dispose());

const helm = findHelm();
const needsHelm =
  helm === undefined
    ? "helm is not installed; `go install helm.sh/helm/v3/cmd/helm@v3.22.0` installs it"
    : false;
const kubernetesSchema = schemaOf("kubernetes");
const needsKubernetes = "missing" in kubernetesSchema ? kubernetesSchema.missing : false;
const known = "path" in kubernetesSchema ? objectReader(kubernetesSchema.path) : undefined;
const composeSchema = schemaOf("compose");
const needsCompose = "missing" in composeSchema ? composeSchema.missing : false;
const composed = "path" in composeSchema ? composeReader(composeSchema.path) : undefined;

/** On the path, or where Go installs programs. */
function findHelm(): string | undefined {
  const { stdout } = spawnSync("go", ["env", "GOPATH"], { encoding: "utf8" });
  const candidates = ["helm", join((stdout ?? "").trim(), "bin/helm")];
  return candidates.find((path) => spawnSync(path, ["version"]).status === 0);
}

/** The output of a program; rejects with what it printed as its message. */
function run(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const done = (error: ExecFileException | null, stdout: string, stderr: string): void => {
      if (error === null) resolve(stdout);
      else reject(new Error(stderr));
    };
    execFile(program, args, { encoding: "utf8", env }, done);
  });
}

const secrets = {
  PRODUCER_AUTH_CONFIG: '[{"token":"a-long-token-of-the-operator","roles":["operator"]}]',
  WEBHOOK_HMAC_SECRET: "a-secret-for-the-webhooks-of-this-test",
};
const given = ["--set-json", `secrets=${JSON.stringify(secrets)}`];
const clusterSecrets = {
  ...secrets,
  CODEQ_CLUSTER_SECRET: "a-secret-of-all-nodes-of-the-cluster",
};
const inCluster = [
  ...["--set", "cluster.enabled=true"],
  ...["--set-json", `secrets=${JSON.stringify(clusterSecrets)}`],
];

const render = (...args: string[]): Promise<string> =>
  run(helm ?? "", ["template", "codeq", chart, ...args]);

interface Objects {
  readonly text: string;
  readonly all: readonly unknown[];
  /** What an object has at a path with dots, by its kind and name. */
  readonly of: (kind: string, name: string, path: string) => unknown;
}

async function objects(...args: string[]): Promise<Objects> {
  const text = await render(...given, ...args);
  const all = text.split(/^---$/m).flatMap((each) => (each.trim() === "" ? [] : read(each)));
  const of: Objects["of"] = (kind, name, path) => {
    const isIt = (each: unknown): boolean =>
      at(each, "kind") === kind && at(each, "metadata.name") === name;
    return at(all.find(isIt), path);
  };
  return { text, all, of };
}

function read(text: string): unknown {
  return parseDocument(text).toJS();
}

function at(value: unknown, path: string): unknown {
  const step = (tree: unknown, key: string): unknown => (tree as Record<string, unknown>)[key];
  return path.split(".").reduce(step, value);
}

const pod = "spec.template.spec";
const container = `${pod}.containers.0`;

test("helm finds nothing wrong with the chart", { skip: needsHelm }, async () => {
  assert.match(await run(helm ?? "", ["lint", "--strict", chart, ...given]), /0 chart\(s\) failed/);
});

test("Kubernetes knows every field of every object", {
  skip: needsHelm || needsKubernetes,
}, async () => {
  const { text } = await objects(
    ...["--set", "persistence.storageClassName=fast", "--set", "podAnnotations.a=b"],
    ...["--set-json", 'extraVolumes=[{"name":"tls","secret":{"secretName":"tls"}}]'],
    ...["--set-json", 'extraVolumeMounts=[{"name":"tls","mountPath":"/etc/tls"}]'],
    ...["--set-json", 'tolerations=[{"key":"a","operator":"Exists"}]'],
    ...["--set-json", 'imagePullSecrets=[{"name":"pull"}]', "--set", "nodeSelector.a=b"],
  );
  assert.deepEqual(known?.(text), [
    "Secret codeq-secrets",
    "ConfigMap codeq-config",
    "Service codeq",
    "Service codeq-pods",
    "StatefulSet codeq",
  ]);
  for (const [right, wrong, refusal] of [
    ["readOnlyRootFilesystem:", "readonlyRootFilesystem:", /additional .*readonlyRootFilesystem/],
    ["readOnlyRootFilesystem: true", "readOnlyRootFilesystem: yes!", /must be boolean/],
    ["replicas: 1", 'replicas: "1"', /replicas must be integer/],
    ["storage: 10Gi", "storage: 10 GB", /must match pattern/],
    ["kind: StatefulSet", "kind: Statefulset", /no Statefulset in apps\/v1/],
    ["  serviceName:", "  replicas: 1\n  serviceName:", /keys must be unique/],
  ] as const) {
    assert.ok(text.includes(right), right);
    assert.throws(() => known?.(text.replace(right, wrong)), refusal);
  }
});

test("the server takes the configuration of the chart", { skip: needsHelm }, async () => {
  const { of } = await objects("--set", "config.durability=interval");
  const file = of("ConfigMap", "codeq-config", "data") as Record<string, string>;
  const args = of("StatefulSet", "codeq", `${container}.args`) as string[];
  assert.deepEqual(args, ["serve", "--config", "/etc/codeq/codeq.yaml"]);
  const variables = of("StatefulSet", "codeq", `${container}.env`) as Record<string, string>[];
  const own = Object.fromEntries(variables.map(({ name, value }) => [name, value]));
  const fromSecret = of("Secret", "codeq-secrets", "stringData") as Record<string, string>;
  const loaded = loadConfig({
    argv: args.slice(1),
    env: { ...image.env, ...own, ...fromSecret },
    readFile: () => file["codeq.yaml"] ?? "",
  });
  assert.ok(loaded.ok, JSON.stringify(loaded));
  assert.deepEqual(loaded.warnings, []);
  const { env, host, dataDir, durability, port } = loaded.config;
  assert.deepEqual([env, host, dataDir], ["prod", "0.0.0.0", "/var/lib/codeq"]);
  assert.equal(durability, "interval");
  assert.equal(port, of("StatefulSet", "codeq", `${container}.ports.0.containerPort`));
  const mounted = of("StatefulSet", "codeq", `${container}.volumeMounts.0.mountPath`);
  assert.equal(mounted, image.volume);
});

test("the pod is one, not root, read-only, and not told of services", {
  skip: needsHelm,
}, async () => {
  const { of } = await objects();
  const ofSet = (path: string): unknown => of("StatefulSet", "codeq", path);
  assert.equal(ofSet("spec.replicas"), 1);
  // A service called codeq would set CODEQ_PORT to an address, which is no port.
  assert.equal(ofSet(`${pod}.enableServiceLinks`), false);
  const user = ofSet(`${pod}.securityContext.runAsUser`);
  assert.equal(`${user}:${ofSet(`${pod}.securityContext.runAsGroup`)}`, image.user);
  assert.deepEqual(ofSet(`${container}.securityContext`), {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  });
  assert.ok(Number(ofSet(`${pod}.terminationGracePeriodSeconds`)) > 10);
});

test("a changed setting or secret starts a new pod", { skip: needsHelm }, async () => {
  const annotations = async (...args: string[]): Promise<unknown> =>
    (await objects(...args)).of("StatefulSet", "codeq", "spec.template.metadata.annotations");
  const before = await annotations();
  assert.deepEqual(await annotations(), before);
  assert.notDeepEqual(await annotations("--set", "config.shards=2"), before);
  assert.notDeepEqual(await annotations("--set", "secrets.WEBHOOK_HMAC_SECRET=other"), before);
});

test("certificates change the probes, and only one service is scraped", {
  skip: needsHelm,
}, async () => {
  const { of, all } = await objects(
    ...["--set", "config.tlsCertFile=/etc/tls/tls.crt", "--set", "serviceMonitor.enabled=true"],
  );
  for (const probe of ["startupProbe", "livenessProbe", "readinessProbe"]) {
    assert.equal(of("StatefulSet", "codeq", `${container}.${probe}.httpGet.scheme`), "HTTPS");
  }
  const wanted = of("ServiceMonitor", "codeq", "spec.selector.matchLabels") as object;
  const scraped = all.filter((each) => {
    const labels = at(each, "metadata.labels") as Record<string, unknown>;
    const isMatch = Object.entries(wanted).every(([key, value]) => labels[key] === value);
    return at(each, "kind") === "Service" && isMatch;
  });
  assert.deepEqual(
    scraped.map((each) => at(each, "metadata.name")),
    ["codeq"],
  );
});

test("a cluster has three nodes, and Kubernetes knows every field", {
  skip: needsHelm || needsKubernetes,
}, async () => {
  const { text, of } = await objects(...inCluster);
  assert.deepEqual(known?.(text).sort(), [
    "ConfigMap codeq-config",
    "PodDisruptionBudget codeq",
    "Secret codeq-secrets",
    "Service codeq",
    "Service codeq-pods",
    "StatefulSet codeq",
  ]);
  assert.equal(of("StatefulSet", "codeq", "spec.replicas"), 3);
  // Nodes that are not ready have to find each other to become so.
  assert.equal(of("Service", "codeq-pods", "spec.publishNotReadyAddresses"), true);
  const graceSeconds = Number(of("StatefulSet", "codeq", `${pod}.terminationGracePeriodSeconds`));
  const [, sleeps] = of(
    "StatefulSet",
    "codeq",
    `${container}.lifecycle.preStop.exec.command`,
  ) as string[];
  assert.ok(graceSeconds > Number(sleeps) + 10, "there is time to hand over and stop");
});

test("every pod of a cluster is a node that the server takes", { skip: needsHelm }, async () => {
  const { of } = await objects(...inCluster, "--set", "cluster.bootstrap=true");
  const variables = of("StatefulSet", "codeq", `${container}.env`) as Record<string, string>[];
  const own = Object.fromEntries(variables.map(({ name, value = "" }) => [name, value]));
  for (const at of [0, 1, 2]) {
    const loaded = loadConfig({
      argv: [],
      env: {
        ...image.env,
        ...own,
        ...clusterSecrets,
        CODEQ_ALLOW_PRODUCER_AS_WORKER: "true",
        CODEQ_NODE_ID: `codeq-${at}`,
      },
      readFile: () => "",
    });
    assert.ok(loaded.ok, JSON.stringify(loaded));
    const { clusterMembers, clusterBootstrap } = loaded.config;
    const address = `codeq-${at}.codeq-pods.default.svc.cluster.local:7000`;
    assert.ok(clusterMembers.split(",").includes(`codeq-${at}=${address}`), clusterMembers);
    assert.equal(clusterBootstrap, "codeq-0", "one node begins the cluster");
  }
});

for (const [what, args, text] of [
  [
    "without the secrets of a cluster",
    [...given, "--set", "cluster.enabled=true"],
    /CLUSTER_SECRET/,
  ],
  ["with two nodes", [...inCluster, "--set", "cluster.nodes=2"], /nodes/],
  ["without secrets", [], /secrets\.PRODUCER_AUTH_CONFIG is missing/],
  ["with half of the secrets", ["--set", "secrets.PRODUCER_AUTH_CONFIG=x"], /WEBHOOK_HMAC_SECRET/],
  ["with an unknown value", [...given, "--set", "replicas=2"], /replicas/],
  ["with a secret in the settings", [...given, "--set", "config.metricsToken=x"], /metricsToken/],
  ["with another port in the settings", [...given, "--set", "config.port=1"], /port/],
  ["with a size that is none", [...given, "--set", "persistence.size=big"], /size/],
  ["with a port that is none", [...given, "--set", "service.ports.http=70000"], /http/],
] as const) {
  test(`the chart is refused ${what}`, { skip: needsHelm }, async () => {
    await assert.rejects(render(...args), text);
  });
}

test("a secret of the user's own takes the place of that of the chart", {
  skip: needsHelm,
}, async () => {
  const text = await render("--set", "existingSecret=mine");
  assert.doesNotMatch(text, /kind: Secret/);
  assert.match(text, /secretRef: \{ name: mine \}/);
});

test("the commands of the page install the chart", { skip: needsHelm }, async (t) => {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const env = { ...process.env, INSTALL_HELM: helm };
  const [printed = ""] = await runBlocks("sh chart", directory.path, env);
  assert.match(printed, /image: "registry\.example\.com\/codeq:0\.1\.0"/);
  assert.match(printed, /secretRef: \{ name: codeq-secrets \}/);
  assert.match(printed, /storage: 20Gi/);
});

test("Compose takes the file, and asks for the secrets", { skip: needsCompose }, () => {
  const text = readFileSync(compose, "utf8");
  assert.deepEqual(Object.keys(composed?.(text, secrets).services ?? {}), ["codeq"]);
  assert.throws(() => composed?.(text, {}), /PRODUCER_AUTH_CONFIG is missing/);
  for (const [right, wrong, refusal] of [
    ["read_only:", "readonly:", /unevaluated .*readonly/],
    ["read_only: true", "read_only: [true]", /read_only must be boolean/],
    ["data:/var", "dta:/var", /codeq refers to dta/],
  ] as const) {
    assert.ok(text.includes(right), right);
    assert.throws(() => composed?.(text.replace(right, wrong), secrets), refusal);
  }
});

test("Compose takes the file of a cluster, and asks for its secrets", {
  skip: needsCompose,
}, () => {
  const text = readFileSync(composeCluster, "utf8");
  const names = Object.keys(composed?.(text, clusterSecrets).services ?? {});
  assert.deepEqual(names.sort(), ["node-a", "node-b", "node-c"]);
  assert.throws(() => composed?.(text, secrets), /CODEQ_CLUSTER_SECRET/);
});

test("the nodes of the compose file are nodes that the server takes", () => {
  const services = at(read(readFileSync(composeCluster, "utf8")), "services");
  const volumes = new Set<string>();
  for (const id of ["a", "b", "c"]) {
    const node = at(services, `node-${id}`);
    const { "<<": settings, ...own } = at(node, "environment") as Record<string, string>;
    const written = { ...(settings as unknown as Record<string, string>), ...own };
    const environment = Object.fromEntries(
      Object.entries(written).map(([name, value]) => [
        name,
        value.replace(/\$\{CODEQ_CLUSTER_BOOTSTRAP:-(\w*)\}/, "$1"),
      ]),
    );
    const loaded = loadConfig({
      argv: [],
      env: { ...image.env, ...environment, ...clusterSecrets },
      readFile: () => "",
    });
    assert.ok(loaded.ok, JSON.stringify(loaded));
    assert.equal(loaded.config.nodeId, id);
    assert.equal(loaded.config.clusterBootstrap, "");
    volumes.add((at(node, "volumes") as string[])[0] ?? "");
  }
  assert.equal(volumes.size, 3, "every node has a volume of its own");
});

test("the compose file fits the image, and the server takes its settings", () => {
  const codeq = at(read(readFileSync(compose, "utf8")), "services.codeq");
  assert.equal(at(codeq, "build.dockerfile"), "deploy/image/Dockerfile");
  assert.equal(at(codeq, "read_only"), true);
  assert.deepEqual(at(codeq, "volumes"), [`data:${image.volume}`]);
  const environment = at(codeq, "environment") as Record<string, string>;
  const loaded = loadConfig({
    argv: [],
    env: { ...image.env, ...environment, ...secrets },
    readFile: () => "",
  });
  assert.ok(loaded.ok, JSON.stringify(loaded));
  assert.deepEqual(loaded.warnings, []);
  const ports = [8080, 9091, 9092].map((port) => `127.0.0.1:${port}:${port}`);
  assert.deepEqual(at(codeq, "ports"), ports);
});
