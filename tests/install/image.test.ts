/**
 * The image without a container engine: what the last stage of the Dockerfile says is put together in a
 * folder, with the libraries that a Debian base brings, and run as the first process of its namespaces,
 * on a read-only root, as the user of the image.
 */
import assert from "node:assert/strict";
import { execFile, execFileSync, spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { after, type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { loadConfig } from "../../packages/server/src/exports/config/index.ts";
import { builtExecutable } from "../built-once.ts";
import { etcdBinary } from "../cluster/etcd-binary.ts";
import { Child, root, temporaryDirectory } from "../e2e/server-process.ts";
import { imageOf } from "./dockerfile.ts";
import { runBlocks } from "./page-blocks.ts";

const run = promisify(execFile);
const image = imageOf(readFileSync(join(root, "deploy/image/Dockerfile"), "utf8"));
const namespaces = ["--mount", "--pid", "--fork"];
const mayIsolate =
  process.arch === "x64" && spawnSync("unshare", [...namespaces, "true"]).status === 0;
const skip = mayIsolate ? false : "this machine does not allow namespaces, or is not Linux x64";

const etcd = mayIsolate ? etcdBinary() : { missing: "" };
const making = temporaryDirectory();
after(() => making.dispose());
if (mayIsolate) await makeRoot(making.path);

/** The folders that the build stage leaves, and what is copied from them. */
async function makeRoot(folder: string): Promise<void> {
  const out = join(folder, "out");
  mkdirSync(out);
  const executable = join(out, "codeq");
  copyFileSync(await builtExecutable(), executable);
  const native = "node_modules/classic-level/prebuilds/linux-x64/classic-level.node";
  cpSync(join(root, native), join(out, "classic-level.node"));
  // Where etcd cannot be had, the image is tried without a program that one server does not use.
  if ("path" in etcd) copyFileSync(etcd.path, join(out, "etcd"));
  else writeFileSync(join(out, "etcd"), "");
  mkdirSync(join(out, "data"));
  const at = (path: string): string => join(folder, "root", path);
  for (const path of ["dev", "proc", "tmp", "etc"]) mkdirSync(at(path), { recursive: true });
  for (const library of librariesOf(executable)) {
    mkdirSync(dirname(at(library)), { recursive: true });
    copyFileSync(library, at(library));
  }
  for (const { sources, target, owner } of image.copies) {
    for (const source of sources) copy(join(folder, source), at(target), owner);
  }
  // Everybody may look into the folder, as into the root of an image.
  for (const path of [folder, join(folder, "root")]) chmodSync(path, 0o755);
}

/** As COPY does: a folder becomes the target, a file goes into it. */
function copy(source: string, target: string, owner: string | undefined): void {
  const into = target.endsWith("/") ? join(target, source.split("/").at(-1) ?? "") : target;
  cpSync(source, into, { recursive: true });
  const [user = 0, group = 0] = (owner ?? "0:0").split(":").map(Number);
  chownSync(into, user, group);
}

function librariesOf(program: string): string[] {
  const printed = execFileSync("ldd", [program], { encoding: "utf8" });
  return [...printed.matchAll(/(\/\S+) \(0x/g)].map(([, path = ""]) => path);
}

interface Container {
  readonly child: Child;
  readonly url: string;
  /** Of the command, which is the first process inside. */
  readonly pid: number;
  readonly env: Readonly<Record<string, string>>;
}

const secrets = {
  PRODUCER_AUTH_CONFIG:
    '[{"token":"token-of-the-operator","subject":"root","tenant":"main","roles":["operator"]}]',
  WEBHOOK_HMAC_SECRET: "a-secret-for-the-webhooks-of-this-test",
  CODEQ_ALLOW_PRODUCER_AS_WORKER: "true",
};

const inside = `
set -eu
mount --make-rprivate /
mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount --bind "$volume" "$root$volume_at"
mount -o remount,bind,ro "$root"
exec chroot --userspec="$user" --groups= "$root" "$@"
`;

async function start(t: TestContext, volume: string): Promise<Container> {
  const port = await freePort();
  const env = {
    ...image.env,
    ...secrets,
    CODEQ_PORT: String(port),
    CODEQ_HOST: "127.0.0.1",
    CODEQ_WORKER_STREAM_ADDR: ":0",
    CODEQ_PRODUCER_STREAM_ADDR: ":0",
  };

  const child = new Child(
    spawn("unshare", [...namespaces, "sh", "-c", inside, "sh", ...image.command], {
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...env,
        PATH: `${image.env["PATH"]}:${process.env["PATH"]}`,
        root: join(making.path, "root"),
        volume,
        volume_at: image.volume,
        user: image.user,
      },
    }),
  );
  await child.line((line) => line.includes('"listening"'));
  const pid = childOf(child.pid);
  t.after(() => {
    // The first process takes all others of its namespace along.
    if (child.process.exitCode === null) process.kill(pid, "SIGKILL");
    return child.exited;
  });
  return { child, url: `http://127.0.0.1:${port}`, pid, env };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" && address !== null ? address.port : 0;
}

function childOf(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ")[0]);
}

/** The owner is that of the folder in the image, as engines do it for a new volume. */
function newVolume(t: TestContext): string {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const { uid, gid } = statSync(join(making.path, "root", image.volume));
  chownSync(directory.path, uid, gid);
  return directory.path;
}

const status = (pid: number): string => readFileSync(`/proc/${pid}/status`, "utf8");

async function create({ url }: Container): Promise<void> {
  const answer = await fetch(`${url}/v1/codeq/tasks`, {
    method: "POST",
    headers: { authorization: "Bearer token-of-the-operator" },
    body: JSON.stringify({ command: "hello", payload: {} }),
  });
  assert.equal(answer.status, 202, await answer.text());
}

async function waiting({ url }: Container): Promise<number> {
  const answer = await fetch(`${url}/v1/codeq/admin/queues/hello`, {
    headers: { authorization: "Bearer token-of-the-operator" },
  });
  return ((await answer.json()) as { ready: number }).ready;
}

test("it is the first process, not root, and cannot write outside of its volume", {
  skip,
}, async (t) => {
  const container = await start(t, newVolume(t));
  const [user, group] = image.user.split(":");
  assert.notEqual(user, "0");
  for (const pid of [container.pid, childOf(container.pid)]) {
    assert.match(
      status(pid),
      new RegExp(`^Uid:\\s+${user}\\s+${user}\\s+${user}\\s+${user}$`, "m"),
    );
    assert.match(status(pid), new RegExp(`^Gid:\\s+${group}\\s`, "m"));
    assert.match(status(pid), /^CapEff:\s+0+$/m);
  }
  assert.match(status(container.pid), /^NSpid:\s+\d+\s+1$/m);
  for (const path of ["/opt/codeq/x", "/tmp/x", "/etc/x"]) {
    const write = (): void => writeFileSync(`/proc/${container.pid}/root${path}`, "");
    assert.throws(write, { code: "EROFS" });
  }
  await create(container);
});

test("its signal stops it in order, and the volume keeps the tasks", { skip }, async (t) => {
  const volume = newVolume(t);
  const first = await start(t, volume);
  await create(first);
  process.kill(first.pid, image.stopSignal as NodeJS.Signals);
  const { code, stdout, stderr } = await first.child.exited;
  assert.equal(code, 0, stderr);
  assert.match(stdout, /"stopped"/);
  const second = await start(t, volume);
  assert.equal(await waiting(second), 1);
});

test("the server that is killed ends the container, and the next one has the tasks", {
  skip,
}, async (t) => {
  const volume = newVolume(t);
  const first = await start(t, volume);
  await create(first);
  process.kill(childOf(first.pid), "SIGKILL");
  assert.equal((await first.child.exited).code, 137);
  const second = await start(t, volume);
  assert.equal(await waiting(second), 1);
});

test("the health check passes inside, and fails where nothing listens", { skip }, async (t) => {
  const container = await start(t, newVolume(t));
  const [user = "", group = ""] = image.user.split(":");
  const check = (env: Readonly<Record<string, string>>): Promise<unknown> => {
    const into = ["--target", String(container.pid), "--mount", "--pid", "--root", "--wd"];
    const as = ["--setuid", user, "--setgid", group];
    return run("nsenter", [...into, ...as, ...image.healthCheck], {
      env: { ...env, PATH: `${env["PATH"]}:${process.env["PATH"]}` },
    });
  };
  await check(container.env);
  await assert.rejects(check({ ...container.env, CODEQ_PORT: String(await freePort()) }), {
    code: 1,
  });
});

test("without tokens of one's own it does not start", { skip }, async () => {
  const { status: code, stderr } = spawnSync(
    join(making.path, "root", image.command[0] ?? ""),
    image.command.slice(1),
    { env: { ...image.env, CODEQ_DATA_DIR: join(making.path, "none") }, encoding: "utf8" },
  );
  assert.equal(code, 2);
  assert.match(stderr, /producerAuthConfig/);
});

test("the commands of the page name files, images and settings that exist", async (t) => {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const printed = await runBlocks("sh image", directory.path);
  const variables = printed.join("").matchAll(/^variable (\w+)=(.*)$/gm);
  const env = Object.fromEntries([...variables].map(([, name, value]) => [name, value]));
  const loaded = loadConfig({ argv: [], env: { ...image.env, ...env }, readFile: () => "" });
  assert.ok(loaded.ok, JSON.stringify(loaded));
  assert.deepEqual(loaded.warnings, []);
  const mounts = [...printed.join("").matchAll(/^volume \w[\w-]*:(\S+)$/gm)].map(([, at]) => at);
  assert.deepEqual(mounts, [image.volume]);
});
