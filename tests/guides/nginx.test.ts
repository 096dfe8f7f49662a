/** The proxy of the deployment guide lets everything through that it should, and nothing else. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { codeq, task } from "../../packages/client/src/index.ts";
import {
  Child,
  type ServerProcess,
  startServer,
  temporaryDirectory,
} from "../e2e/server-process.ts";
import { debianProgram } from "./debian-program.ts";
import { blocksOf } from "./marks.ts";

const run = promisify(execFile);

interface Proxy {
  readonly port: number;
  readonly ca: string;
  readonly server: ServerProcess;
  /** Of its configuration and its certificate. */
  readonly directory: string;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function certificate(directory: string): Promise<string> {
  const [key, cert] = [join(directory, "tls.key"), join(directory, "tls.crt")];
  const kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  const names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
  await run("openssl", ["req", ...kind, "-days", "2", ...names, "-keyout", key, "-out", cert]);
  return readFileSync(cert, "utf8");
}

/** The block as it stands, with ports and files of the test, inside what Debian has around it. */
async function setup(t: TestContext): Promise<Proxy | undefined> {
  const nginx = await debianProgram(t, { program: "nginx", package: "nginx" });
  if (nginx === undefined) return undefined;
  const directory = temporaryDirectory();
  const server = await startServer({ dataDir: join(directory.path, "data") });
  t.after(async () => {
    await server.kill();
    directory.dispose();
  });
  const ca = await certificate(directory.path);
  const port = await freePort();
  const [block, ...others] = blocksOf("nginx");
  assert.ok(block !== undefined && others.length === 0);
  const site = block.text
    .replaceAll("127.0.0.1:8080", `127.0.0.1:${server.port}`)
    .replaceAll("127.0.0.1:9091", `127.0.0.1:${server.workerStreamPort}`)
    .replaceAll("/etc/codeq/", `${directory.path}/`)
    .replaceAll("listen 443", `listen 127.0.0.1:${port}`)
    .replaceAll("queue.example.com", "localhost");
  mkdirSync(join(directory.path, "temp"));
  // Started as root, its workers are somebody else.
  chmodSync(directory.path, 0o755);
  const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${directory.path}/temp/${name};`,
  );
  const config = join(directory.path, "nginx.conf");
  const around = `pid ${directory.path}/nginx.pid;\nerror_log stderr;\nevents {}\n`;
  const http = `access_log off;\n${paths.join("\n")}\n${site}`;
  writeFileSync(config, `${around}http {\n${http}\n}\n`);
  await run(nginx, ["-t", "-c", config]);
  const started = spawn(nginx, ["-c", config, "-g", "daemon off;"], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const child = new Child(started);
  t.after(async () => {
    child.signal("SIGQUIT");
    await child.exited;
  });
  await run("curl", [
    "-sk",
    "--retry",
    "50",
    "--retry-connrefused",
    "--retry-delay",
    "0",
    "--retry-max-time",
    "10",
    `https://localhost:${port}/readyz`,
  ]);
  return { port, ca, server, directory: directory.path };
}

test("tasks and results go through nginx on streams, however much is sent", async (t) => {
  const proxy = await setup(t);
  if (proxy === undefined) return;
  const { port, ca } = proxy;
  const measure = task<{ text: string }, { length: number }>("measure");
  await using client = codeq({
    url: `https://localhost:${port}`,
    streams: `localhost:${port}`,
    transport: "streams",
    tls: { ca },
    token: "dev-token",
  });
  client.worker(measure.handle(({ text }) => ({ length: text.length })));
  // Together more than nginx allows a request by default.
  for (let round = 0; round < 3; round++) {
    const run = await client.enqueue(measure, { text: "x".repeat(700_000) });
    assert.deepEqual(await run.result({ timeout: "5m" }), { length: 700_000 });
  }
  // A client would open another stream without a word when one is cut off.
  const metrics = await (await fetch(`${proxy.server.url}/metrics`)).text();
  assert.deepEqual(metrics.match(/^codeq_streams_closed_total.*[1-9]\d*$/gm) ?? [], []);
});

test("HTTP goes through nginx, and metrics do not", async (t) => {
  const proxy = await setup(t);
  if (proxy === undefined) return;
  const curl = async (path: string, ...more: string[]): Promise<string> => {
    const to = `https://localhost:${proxy.port}${path}`;
    const status = [
      "-s",
      "-o",
      "/dev/null",
      "-w",
      "%{http_code}",
      "--cacert",
      join(proxy.directory, "tls.crt"),
    ];
    return (await run("curl", [...status, ...more, to])).stdout;
  };
  const auth = ["-H", "Authorization: Bearer dev-token"];
  const body = join(proxy.directory, "body.json");
  writeFileSync(body, `{"command":"c","payload":"${"x".repeat(1_048_570)}"}`);
  assert.match(await curl("/v1/codeq/tasks", ...auth, "-d", `@${body}`), /^202$/);
  const claim = ["-d", '{"commands":["other"],"waitSeconds":1}'];
  assert.match(await curl("/v1/codeq/tasks/claim", ...auth, ...claim), /^204$/);
  assert.match(await curl("/metrics"), /^403$/);
});
