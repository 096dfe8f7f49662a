/**
 * The clients for Python and Go beside the queues that programs in these languages use: Celery and RQ, and asynq, on
 * Redis. Every one enqueues for a while and then works off what it has enqueued, in processes of its own.
 */
import { type ChildProcess, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { pythonPackages } from "../api/python-tools.ts";
import { cpuOf } from "./cpu-time.ts";
import { type Figure, figure, medianFigures } from "./figures.ts";
import { choice, choices, duration, readOptions, wholeNumber } from "./options.ts";
import { ensurePeers, startRedis } from "./peer-servers.ts";
import { pathOf, SetupError } from "./programs.ts";
import { progress, Table } from "./table.ts";
import { ask, benchFile, Workspace } from "./workspace.ts";

export const clientsHelp = `the clients for Python and Go, beside Celery and RQ, and asynq
    --languages python,go
    --rounds 3                 through all of them; medians are shown
    --mode fsync               our durability: fsync, interval or os
    --producers 16             threads, goroutines, or coroutines on one loop, that enqueue one task at a time
    --concurrency 32           tasks that a worker has in hand
    --seconds 5                how long each enqueues, and then works at most
    --tasks 100000             at most as many
  Needs redis-server (installed as for peers), Python 3 with pip, and Go; the packages come from PyPI and from the
  proxy of Go. Redis appends with fsync every second. The work of a task is nothing, its result is kept. codeQ's
  Python client runs async handlers, or others in threads. Celery acknowledges after the work (acks_late), in as
  many processes as there are CPUs, which is its default, or in threads; RQ has a SimpleWorker for each CPU, which
  does not fork for each job. us are CPU time for each task: of the client, and of the server or Redis.`;

const packages = ["celery==5.7.0", "packaging==26.3", "redis==8.1.0", "rq==2.12.0"];
const clientPackages = ["grpcio==1.85.1", "protobuf==7.36.2", "pydantic==2.14.3"];
const pollMs = 20;

interface Load {
  readonly producers: number;
  readonly concurrency: number;
  readonly seconds: number;
  readonly tasks: number;
}

/** A server or a Redis that holds the tasks. */
interface Holder {
  readonly child: ChildProcess;
  readonly port: number;
  /** How many tasks have not ended. */
  readonly left: () => Promise<number>;
  readonly close: () => void;
}

interface Contender {
  readonly language: "python" | "go";
  readonly name: string;
  readonly library: string;
  /** On Redis: where the tasks are that have not ended. Without it, our server. */
  readonly left?: (redis: Redis) => Promise<number[]>;
}

const celeryLeft = (redis: Redis) => Promise.all([redis.llen("celery"), redis.hlen("unacked")]);
const contenders: readonly Contender[] = [
  { language: "python", name: "codeQ, async", library: "codeq-async" },
  { language: "python", name: "codeQ, threads", library: "codeq-threads" },
  { language: "python", name: "Celery", library: "celery", left: celeryLeft },
  { language: "python", name: "Celery, threads", library: "celery-threads", left: celeryLeft },
  {
    ...{ language: "python", name: "RQ", library: "rq" },
    left: (redis) => Promise.all([redis.llen("rq:queue:bench"), redis.zcard("rq:wip:bench")]),
  },
  { language: "go", name: "codeQ", library: "codeq" },
  {
    ...{ language: "go", name: "asynq", library: "asynq" },
    left: (redis) =>
      Promise.all([redis.llen("asynq:{default}:pending"), redis.llen("asynq:{default}:active")]),
  },
];

export async function clientsBench(args: readonly string[]): Promise<void> {
  const { languages, rounds, mode, ...load } = readOptions(args, {
    languages: choices(["python", "go"], "python,go"),
    rounds: wholeNumber("3"),
    mode: choice(["fsync", "interval", "os"], "fsync"),
    producers: wholeNumber("16"),
    concurrency: wholeNumber("32"),
    seconds: duration("5"),
    tasks: wholeNumber("100000"),
  });
  ensurePeers(["redis-server"]);
  await using workspace = new Workspace();
  const programs = {
    python: languages.includes("python") ? await pythonProgram() : [],
    go: languages.includes("go") ? goProgram() : [],
  };
  const chosen = contenders.filter(({ language }) => languages.includes(language));
  const measured = chosen.map((): Figure[][] => []);
  for (let round = 1; round <= rounds; round += 1) {
    for (const [index, contender] of chosen.entries()) {
      const { language, name } = contender;
      progress(`round ${round} of ${rounds}: ${language}, ${name}`);
      const holder = await open(workspace, contender, mode);
      const program = programs[language];
      measured[index]?.push(await measureOne(workspace, { holder, contender, program, load }));
      holder.close();
      await workspace.stop(holder.child);
    }
  }
  const table = new Table(["language", "client"], "Celery, threads".length);
  for (const [index, { language, name }] of chosen.entries()) {
    table.add([language, name], medianFigures(measured[index] ?? []));
  }
}

async function open(workspace: Workspace, { left }: Contender, mode: string): Promise<Holder> {
  if (left === undefined) {
    const server = await workspace.startServer({ CODEQ_DURABILITY: mode });
    const counts = async (): Promise<number> => {
      const queue = await ask(server, "/admin/queues/bench");
      const { ready, delayed, inProgress } = queue as Record<string, number>;
      return Number(ready) + Number(delayed) + Number(inProgress);
    };
    return { ...server, left: counts, close: () => {} };
  }
  const { child, port } = await startRedis(workspace);
  const redis = new Redis(port);
  const sum = async () => (await left(redis)).reduce((total, count) => total + count, 0);
  return { child, port, left: sum, close: () => redis.disconnect() };
}

interface Case {
  readonly holder: Holder;
  readonly contender: Contender;
  readonly program: readonly string[];
  readonly load: Load;
}

async function measureOne(workspace: Workspace, one: Case): Promise<Figure[]> {
  const { holder } = one;
  const serverSeconds = async () => (await cpuOf(holder.child)).seconds;
  const before = await serverSeconds();
  const made = await produce(workspace, one);
  const between = await serverSeconds();
  const worked = await work(workspace, one, serverSeconds);
  const us = (seconds: number, tasks: number) => (seconds / tasks) * 1e6;
  return [
    figure("enqueued/s", made.tasks / made.seconds),
    figure("client us", us(made.cpuSeconds, made.tasks), 1),
    figure("server us", us(between - before, made.tasks), 1),
    figure("worked/s", worked.tasks / worked.seconds),
    figure("client us", us(worked.cpuSeconds, worked.tasks), 1),
    figure("server us", us(worked.serverSeconds, worked.tasks), 1),
  ];
}

interface Made {
  readonly tasks: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
}

function start(workspace: Workspace, one: Case, role: "produce" | "work"): ChildProcess {
  const [command = "", ...args] = one.program;
  const options = JSON.stringify({ ...one.load, port: one.holder.port });
  return workspace.spawn(command, [...args, one.contender.library, role, options], {
    stdio: ["ignore", "pipe", "inherit"],
    // Workers of RQ find the function of a job there.
    env: {
      ...process.env,
      PYTHONPATH: `${loads}:${pythonClient}`,
      PYTHONDONTWRITEBYTECODE: "1",
      PYTHONWARNINGS: "ignore",
    },
    cwd: workspace.newDirectory(),
  });
}

async function produce(workspace: Workspace, one: Case): Promise<Made> {
  const child = start(workspace, one, "produce");
  if (child.stdout === null) throw new Error("the producer has no output");
  let made: Made | undefined;
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.startsWith("{")) made = JSON.parse(line) as Made;
  }
  if (made === undefined) throw new Error(`${one.contender.name} did not say what it enqueued`);
  await workspace.stop(child);
  return made;
}

/** From the first look at which some work is done until there is none, or the time is over. */
async function work(
  workspace: Workspace,
  one: Case,
  serverSeconds: () => Promise<number>,
): Promise<Made & { readonly serverSeconds: number }> {
  const { left } = one.holder;
  const all = await left();
  const child = start(workspace, one, "work");
  child.stdout?.resume();
  const ended = once(child, "exit").then(([code]) => {
    throw new Error(`the worker of ${one.contender.name} ended with code ${code}`);
  });
  ended.catch(() => {});
  const look = async () => {
    await Promise.race([sleep(pollMs), ended]);
    const [tasks, cpuSeconds] = [await left(), treeCpuSeconds(child.pid)];
    return { tasks, cpuSeconds, serverSeconds: await serverSeconds(), atMs: performance.now() };
  };
  let first = await look();
  while (first.tasks === all) first = await look();
  let last = first;
  while (last.tasks > 0 && last.atMs - first.atMs < one.load.seconds * 1000) last = await look();
  await workspace.stop(child);
  if (last.tasks === first.tasks) {
    throw new Error("all work was done between two looks: raise --seconds and --tasks");
  }
  return {
    tasks: first.tasks - last.tasks,
    seconds: (last.atMs - first.atMs) / 1000,
    cpuSeconds: last.cpuSeconds - first.cpuSeconds,
    serverSeconds: last.serverSeconds - first.serverSeconds,
  };
}

/** Of a process and of those that it started. */
function treeCpuSeconds(pid: number | undefined): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const own = (Number(fields[11]) + Number(fields[12])) / 100;
  const children = readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").trim().split(" "),
  );
  return children
    .filter((each) => each !== "")
    .reduce((total, each) => total + treeCpuSeconds(Number(each)), own);
}

const loads = benchFile("client-loads");
const pythonClient = benchFile("../../clients/python/src");

async function pythonProgram(): Promise<string[]> {
  progress("installing Celery and RQ, once");
  const all = [...packages, ...clientPackages];
  const fingerprint = createHash("sha256").update(all.join(" ")).digest("hex").slice(0, 12);
  const got = await pythonPackages(`bench-clients-${fingerprint}`, all);
  if ("missing" in got) throw new SetupError(got.missing);
  return [join(got.path, "python"), join(loads, "load.py")];
}

function goProgram(): string[] {
  const go = pathOf("go");
  if (go === undefined)
    throw new SetupError("go not found: install Go 1.26 or leave it out of --languages");
  progress("building the clients in Go");
  const folder = join(tmpdir(), `codeq-bench-${process.getuid?.() ?? "user"}`);
  mkdirSync(folder, { recursive: true });
  const path = join(folder, "client-loads");
  const built = spawnSync(go, ["build", "-o", path, "."], {
    cwd: join(loads, "go"),
    encoding: "utf8",
  });
  if (built.status !== 0) throw new SetupError(`the clients cannot be built:\n${built.stderr}`);
  return [path];
}
