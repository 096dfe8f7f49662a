/**
 * What a benchmark needs beside itself: a directory on the disk of the repository, and processes.
 * Both are gone when it ends, also when it fails or is interrupted.
 */
import { type ChildProcess, fork, type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { rm } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { type Checkout, here, serverLauncher } from "./checkout.ts";

const { root } = here;
const stopMsMax = 10_000;
const interruptedCode = 130;
/** Of what a server writes to its standard error, shown when it does not start. */
const complaintCharsMax = 4000;

/** What the server writes when its ports are open. */
export interface Listening {
  readonly child: ChildProcess;
  readonly port: number;
  readonly workerStreamPort: number;
  readonly producerStreamPort: number;
}

export class Workspace implements AsyncDisposable {
  readonly #directory: string;
  readonly #children = new Set<ChildProcess>();
  #count = 0;
  readonly #interrupted = (): never => process.exit(interruptedCode);
  readonly #exiting = (): void => {
    for (const child of this.#children) child.kill("SIGKILL");
    rmSync(this.#directory, { recursive: true, force: true, maxRetries: 3 });
  };

  constructor() {
    mkdirSync(join(root, "data"), { recursive: true });
    this.#directory = mkdtempSync(join(root, "data", "bench-"));
    process.once("SIGINT", this.#interrupted);
    process.once("SIGTERM", this.#interrupted);
    process.once("exit", this.#exiting);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#children].map((child) => this.stop(child)));
    await rm(this.#directory, { recursive: true, force: true });
    process.off("SIGINT", this.#interrupted);
    process.off("SIGTERM", this.#interrupted);
    process.off("exit", this.#exiting);
  }

  /** An empty directory of its own for every call. */
  newDirectory(): string {
    this.#count += 1;
    const path = join(this.#directory, String(this.#count));
    mkdirSync(path);
    return path;
  }

  spawn(command: string, args: readonly string[], options: SpawnOptions): ChildProcess {
    return this.#track(spawn(command, args, options));
  }

  /** A file of this folder in a process of its own, with one argument and a channel to it. */
  fork(file: string, argument: unknown): ChildProcess {
    const options = { execArgv: ["--conditions=source"] };
    return this.#track(fork(benchFile(file), [JSON.stringify(argument)], options));
  }

  /** The server of a checkout, started in its way, on ports that are free, with a probe in it. */
  async startServer(
    env: Readonly<Record<string, string>>,
    checkout: Checkout = here,
  ): Promise<Listening> {
    const launch = await serverLauncher(checkout);
    const probe = pathToFileURL(benchFile("server-probe.ts")).href;
    const child = launch({
      args: [],
      env: {
        ...process.env,
        ...{ NODE_OPTIONS: `${process.env["NODE_OPTIONS"] ?? ""} --import=${probe}`.trim() },
        ...{ PORT: "0", WORKER_STREAM_ADDR: "127.0.0.1:0", PRODUCER_STREAM_ADDR: "127.0.0.1:0" },
        ...{ CODEQ_DATA_DIR: this.newDirectory(), LOG_LEVEL: "info", LOG_FORMAT: "json" },
        ...env,
      },
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    return await listening(this.#track(child));
  }

  /** Any program for Node that writes such a line when it listens. */
  async startListening(
    args: readonly string[],
    env: Readonly<Record<string, string>>,
  ): Promise<Listening> {
    const child = this.spawn(process.execPath, ["--conditions=source", ...args], {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    return await listening(child);
  }

  /** Asks the process to end, and insists when it takes too long. */
  async stop(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    const insist = setTimeout(() => child.kill("SIGKILL"), stopMsMax);
    await exited;
    clearTimeout(insist);
  }

  #track(child: ChildProcess): ChildProcess {
    this.#children.add(child);
    child.once("exit", () => this.#children.delete(child));
    return child;
  }
}

async function listening(child: ChildProcess): Promise<Listening> {
  const { stdout } = child;
  if (stdout === null) throw new Error("the output is not a pipe");
  const complaints = lastWords(child);
  for await (const line of createInterface({ input: stdout })) {
    if (!line.includes('"listening"')) continue;
    stdout.resume();
    return { ...(JSON.parse(line) as Omit<Listening, "child">), child };
  }
  throw new Error(`the server ended before it listened: ${complaints()}`);
}

export function benchFile(name: string): string {
  return join(root, "tests", "bench", name);
}

/** Reads the standard error, so that nothing waits for it, and keeps the end. */
export function lastWords({ stderr }: ChildProcess): () => string {
  let text = "";
  stderr?.setEncoding("utf8").on("data", (more: string) => {
    text = (text + more).slice(-complaintCharsMax);
  });
  return () => text;
}

/** For servers that cannot choose one themselves. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("there is no free port");
  return address.port;
}

/** Runs a measurement in a process of its own, launched as the server is; returns what it writes. */
export async function runCase(
  workspace: Workspace,
  file: string,
  options: object,
): Promise<string> {
  const nodeArgs = ["--conditions=source", "--max-semi-space-size=8"];
  const env = { ...process.env, UV_THREADPOOL_SIZE: "8", MALLOC_ARENA_MAX: "2" };
  const args = [...nodeArgs, benchFile(file), JSON.stringify(options)];
  const child = workspace.spawn(process.execPath, args, {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  child.stdout?.on("data", (text: Buffer) => {
    output += text.toString("utf8");
  });
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`the measurement ended with code ${code}`);
  return output;
}

/** The answer of a call of the HTTP API; throws when it is refused. */
export async function ask(
  { port }: Listening,
  path: string,
  body?: object,
  method: string = body === undefined ? "GET" : "POST",
): Promise<unknown> {
  const reply = await fetch(`http://127.0.0.1:${port}/v1/codeq${path}`, {
    method,
    headers: { authorization: "Bearer dev-token", "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!reply.ok) throw new Error(`${path}: ${reply.status} ${await reply.text()}`);
  return await reply.json();
}
