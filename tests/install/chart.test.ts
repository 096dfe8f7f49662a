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
import { runBlocks } from "./page-blocks.ts";

const chart = join(root, "deploy/helm/codeq");
const compose = join(root, "deploy/compose/compose.yaml");
const image = imageOf(readFileSync(join(root, "deploy/image/Dockerfile"), "utf8"));

const building = temporaryDirectory();
after(() => building.dispose());

const helm = findHelm();
const needsHelm =
  helm === undefined
    ? "helm is not installed; `go install helm.sh/helm/v3/cmd/helm@v3.22.0` installs it"
    : false;
const checker = buildChecker();
const needsChecker =
  checker === undefined ? "Go is not installed, or has no modules to build" : false;

/** On the path, or where Go installs programs. */
function findHelm(): string | undefined {
  const { stdout } = spawnSync("go", ["env", "GOPATH"], { encoding: "utf8" });
  const candidates = ["helm", join((stdout ?? "").trim(), "bin/helm")];
  return candidates.find((path) => spawnSync(path, ["version"]).status === 0);
}

/** Undefined where it cannot be built. */
function buildChecker(): string | undefined {
  const path = join(building.path, "object-check");
  const cwd = join(root, "tests/install/object-check");
  return spawnSync("go", ["build", "-o", path, "."], { cwd }).status === 0 ? path : undefined;
}

/** The output of a program; rejects with what it printed as its message. */
function run(
  program: string,
  args: readonly string[],
  { input = "", env = process.env }: { input?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    const done = (error: ExecFileException | null, stdout: string, stderr: string): void => {
      if (error === null) resolve(stdout);
      else reject(new Error(stderr));
    };
    execFile(program, args, { encoding: "utf8", env }, done).stdin?.end(input);
  });
}

const secrets = {
  PRODUCER_AUTH_CONFIG: '[{"token":"a-long-token-of-the-operator","roles":["operator"]}]',
  WEBHOOK_HMAC_SECRET: "a-secret-for-the-webhooks-of-this-test",
};
const given = ["--set-json", `secrets=${JSON.stringify(secrets)}`];

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
  skip: needsHelm || needsChecker,
}, async () => {
  const { text } = await objects(
    ...["--set", "persistence.storageClassName=fast", "--set", "podAnnotations.a=b"],
    ...["--set-json", 'extraVolumes=[{"name":"tls","secret":{"secretName":"tls"}}]'],
    ...["--set-json", 'extraVolumeMounts=[{"name":"tls","mountPath":"/etc/tls"}]'],
    ...["--set-json", 'tolerations=[{"key":"a","operator":"Exists"}]'],
    ...["--set-json", 'imagePullSecrets=[{"name":"pull"}]', "--set", "nodeSelector.a=b"],
  );
  assert.deepEqual((await run(checker ?? "", ["objects"], { input: text })).trim().split("\n"), [
    "Secret codeq-secrets",
    "ConfigMap codeq-config",
    "Service codeq",
    "Service codeq-pods",
    "StatefulSet codeq",
  ]);
  const misspelt = text.replace("readOnlyRootFilesystem", "readonlyRootFilesystem");
  const check = run(checker ?? "", ["objects"], { input: misspelt });
  await assert.rejects(check, /unknown field .*readonlyRootFilesystem/);
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

for (const [what, args, text] of [
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

test("Compose takes the file, and asks for the secrets", { skip: needsChecker }, async () => {
  const args = ["compose", compose];
  assert.equal(await run(checker ?? "", args, { env: { ...process.env, ...secrets } }), "codeq\n");
  await assert.rejects(run(checker ?? "", args), /PRODUCER_AUTH_CONFIG is missing/);
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
