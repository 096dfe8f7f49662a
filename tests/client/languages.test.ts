/** The examples in other languages against a real server, where the language is installed. */
import assert from "node:assert/strict";
import { type ExecFileException, execFile, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, type TestContext, test } from "node:test";
import { goClient } from "../clients/go-tools.ts";
import {
  Child,
  root,
  type ServerProcess,
  startServer,
  temporaryDirectory,
} from "../e2e/server-process.ts";
import { goEnvironment } from "../go-environment.ts";

const python = join(root, "examples/python");
const go = join(root, "examples/go");
const noPython = spawnSync("python3", ["--version"]).status === 0 ? false : "no python3 here";
const building = mkdtempSync(join(tmpdir(), "codeq-go-"));
after(() => rmSync(building, { recursive: true }));
const program = join(building, "example");
const built = spawnSync("go", ["build", "-o", program, "."], {
  cwd: go,
  env: goEnvironment,
  encoding: "utf8",
});
const noGo = built.status === 0 ? false : `Go cannot build it: ${built.stderr ?? "not installed"}`;

interface End {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface Example {
  readonly server: ServerProcess;
  /** Starts a worker and waits until it works. */
  readonly work: () => Promise<Child>;
  readonly produce: (name: string) => Promise<End>;
}

type Command = readonly [program: string, ...args: string[]];

async function setup(t: TestContext, worker: Command, producer: Command): Promise<Example> {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const server = await startServer({ dataDir: directory.path });
  t.after(() => server.kill());
  const env = {
    ...process.env,
    CODEQ_URL: server.url,
  };
  return {
    server,
    work: async () => {
      const [path, ...args] = worker;
      const child = new Child(spawn(path, args, { env, stdio: ["ignore", "pipe", "pipe"] }));
      t.after(() => child.kill());
      await child.line((line) => line === "working");
      return child;
    },
    produce: (name) =>
      new Promise((resolve) => {
        const [path, ...args] = producer;
        const done = (error: ExecFileException | null, stdout: string, stderr: string): void =>
          resolve({ code: Number(error?.code ?? 0), stdout, stderr });
        execFile(path, [...args, name], { env, encoding: "utf8" }, done);
      }),
  };
}

const inPython = (t: TestContext): Promise<Example> =>
  setup(t, ["python3", join(python, "worker.py")], ["python3", join(python, "producer.py")]);
const inGo = (t: TestContext): Promise<Example> =>
  setup(t, [program, "worker"], [program, "producer"]);

/** The dead letter or failed task that a producer left behind. */
async function taskOf({ server }: Example, { stdout }: End): Promise<Record<string, unknown>> {
  const [, id] = /^enqueued (\S+)$/m.exec(stdout) ?? [];
  const headers = { authorization: "Bearer dev-token" };
  const answer = await fetch(`${server.url}/v1/codeq/tasks/${id}`, { headers });
  return (await answer.json()) as Record<string, unknown>;
}

test("Python: a task is done by a worker, which stops in order", { skip: noPython }, async (t) => {
  const example = await inPython(t);
  const worker = await example.work();
  const { stdout, stderr } = await example.produce("Ada");
  assert.match(stdout, /\{'text': 'hello Ada from Python'\}/, stderr);
  worker.signal("SIGTERM");
  // Its claim waits; one more task lets it notice.
  await example.produce("Grace");
  assert.equal((await worker.exited).code, 0, worker.stderr);
});

test("Python: an exception is another attempt, a permanent error is none", {
  skip: noPython,
}, async (t) => {
  const example = await inPython(t);
  await example.work();
  const end = await example.produce("nobody");
  assert.deepEqual([end.code, end.stderr], [1, "the task failed: there is nobody to greet\n"]);
  const failed = await taskOf(example, end);
  assert.deepEqual([failed["status"], failed["error"]], ["FAILED", "there is nobody to greet"]);
  const dead = await taskOf(example, await example.produce(""));
  assert.equal(dead["attempts"], 1);
  assert.match(String(dead["error"]), /the name is empty/);
});

test("Python: a worker outlives its server", { skip: noPython }, async (t) => {
  const example = await inPython(t);
  const worker = await example.work();
  await example.server.kill();
  const { code, stderr } = await example.produce("Ada");
  assert.notEqual(code, 0);
  assert.match(stderr, /refused/i);
  assert.equal(worker.process.exitCode, null, worker.stderr);
});

test("Go: a task is done by a worker, which stops in order", { skip: noGo }, async (t) => {
  const example = await inGo(t);
  const worker = await example.work();
  const { stdout, stderr } = await example.produce("Ada");
  assert.match(stdout, /^hello Ada from Go$/m, stderr);
  worker.signal("SIGTERM");
  assert.equal((await worker.exited).code, 0, worker.stderr);
});

test("Go: an error is another attempt, and a refusal is told", { skip: noGo }, async (t) => {
  const example = await inGo(t);
  await example.work();
  const end = await example.produce("");
  assert.match(end.stderr, /failed: the name is empty/);
  assert.equal((await taskOf(example, end))["attempts"], 1);
  const usage = await new Promise((resolve) => {
    execFile(program, [], (_error, _stdout, stderr) => resolve(stderr));
  });
  assert.match(String(usage), /usage/);
});

const plugins = ["protoc", "protoc-gen-go", "protoc-gen-go-grpc"];
const missing = plugins.filter((name) => spawnSync(name, ["--version"]).status !== 0);
const noProtoc = missing.length === 0 ? false : `not installed: ${missing.join(", ")}`;

test("Go: the packages are those of the published protos", { skip: noProtoc }, () => {
  const out = ["--go_out", building, "--go-grpc_out", building];
  const options = ["--go_opt=module=codeq", "--go-grpc_opt=module=codeq"];
  const args = [
    "-I",
    join(root, "proto"),
    ...out,
    ...options,
    "producerpb.proto",
    "workerpb.proto",
  ];
  const { status, stderr } = spawnSync("protoc", args, { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  for (const folder of ["producerpb", "workerpb"]) {
    for (const name of readdirSync(join(building, folder))) {
      const read = (from: string): string =>
        // The versions of the generators do not matter.
        readFileSync(join(from, folder, name), "utf8").replaceAll(/^\/\/.*protoc.*$/gm, "");
      assert.equal(read(goClient), read(building), `${folder}/${name} is not as generated`);
    }
  }
});
