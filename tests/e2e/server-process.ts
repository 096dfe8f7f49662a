/**
 * The server as its users run it: a child process with its own data directory, stopped by signals.
 * It runs the sources as they are, on a port of its own choice, with an environment that holds nothing but
 * what the test gives it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { resultFile } from "../test-results.ts";
import { serverMain } from "./server-bundle.ts";

export const root: string = join(import.meta.dirname, "../..");

export interface ServerOptions {
  readonly dataDir: string;
  /** Added to the environment; `undefined` takes a variable away. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly args?: readonly string[];
  /** Flags of Node itself. */
  readonly nodeArgs?: readonly string[];
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Any process whose output is read by line and that may be waited for. */
export class Child {
  readonly process: ChildProcess;
  readonly exited: Promise<Exit>;
  stdout = "";
  stderr = "";
  #waiting: { readonly test: (line: string) => boolean; readonly found: (line: string) => void }[] =
    [];

  readonly #logFile: string | undefined;

  constructor(child: ChildProcess) {
    this.process = child;
    this.#logFile = resultFile(`process-${child.pid}.log`);
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.stderr += text;
      this.#keep(text);
    });
    if (child.stdout !== null) {
      createInterface({ input: child.stdout }).on("line", (line) => this.#take(line));
    }
    this.exited = new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code, signal) => {
        const { stdout, stderr } = this;
        resolve({ code, signal, stdout, stderr });
      });
    });
    this.exited.catch(() => {});
  }

  get pid(): number {
    return this.process.pid as number;
  }

  /** The first line from now on that passes the test; rejects when the process ends before. */
  line(test: (line: string) => boolean): Promise<string> {
    const found = new Promise<string>((resolve) => {
      this.#waiting.push({ test, found: resolve });
    });
    const ended = this.exited.then((exit) => {
      throw new Error(
        `the process ended (${exit.signal ?? exit.code}): ${exit.stderr}${exit.stdout}`,
      );
    });
    return Promise.race([found, ended]);
  }

  /** A line that was or will be written. */
  anyLine(test: (line: string) => boolean): Promise<string> {
    const earlier = this.stdout.split("\n").find(test);
    return earlier === undefined ? this.line(test) : Promise.resolve(earlier);
  }

  /** Resolves when the text was or is written to stderr. */
  async errorText(text: string): Promise<void> {
    while (!this.stderr.includes(text)) await once(this.process.stderr as Readable, "data");
  }

  signal(signal: NodeJS.Signals): void {
    this.process.kill(signal);
  }

  /** Ends the process as a crash would, whatever it is doing; harmless when it has ended. */
  async kill(): Promise<void> {
    this.process.kill("SIGKILL");
    await this.exited;
  }

  /** For the reader of a failure. */
  #keep(text: string): void {
    if (this.#logFile !== undefined) appendFileSync(this.#logFile, text);
  }

  #take(line: string): void {
    this.stdout += `${line}\n`;
    this.#keep(`${line}\n`);
    for (const waiting of [...this.#waiting]) {
      if (!waiting.test(line)) continue;
      this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
      waiting.found(line);
    }
  }
}

export class ServerProcess extends Child {
  /** All of them are known once it listens. */
  port = 0;
  workerStreamPort = 0;
  producerStreamPort = 0;

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Asks it to stop and waits for its end. */
  stop(): Promise<Exit> {
    this.signal("SIGTERM");
    return this.exited;
  }
}

/** Resolves when the server listens; rejects with its output when it ends before. */
export async function startServer(options: ServerOptions): Promise<ServerProcess> {
  const server = spawnServer(options);
  const line = await server.line(isListening);
  Object.assign(server, portsIn(line));
  return server;
}

type ListeningPorts = Pick<ServerProcess, "port" | "workerStreamPort" | "producerStreamPort">;

function portsIn(line: string): Partial<ListeningPorts> {
  const { port, workerStreamPort, producerStreamPort } = JSON.parse(line) as ListeningPorts;
  return { port, workerStreamPort, producerStreamPort };
}

/** For a server that is to end by itself; one that begins to listen is ended and an error. */
export async function endOfServer(options: ServerOptions): Promise<Exit> {
  const server = spawnServer(options);
  const isUp = server.line(isListening).then(
    () => true,
    () => false,
  );
  if (await isUp) {
    await server.kill();
    throw new Error(`the server started: ${server.stdout}`);
  }
  return server.exited;
}

function isListening(line: string): boolean {
  return line.includes('"listening"');
}

/** Starts the server without waiting for anything. */
export function spawnServer(options: ServerOptions): ServerProcess {
  const env: Record<string, string | undefined> = {
    PATH: process.env["PATH"],
    // A start takes half the time when compiled code is kept.
    NODE_COMPILE_CACHE: join(root, "node_modules/.cache/compile"),
    PORT: "0",
    WORKER_STREAM_ADDR: ":0",
    PRODUCER_STREAM_ADDR: ":0",
    CODEQ_DATA_DIR: options.dataDir,
    ...options.env,
  };
  const nodeArgs = ["--conditions=source", ...(options.nodeArgs ?? [])];
  const child = spawn(process.execPath, [...nodeArgs, serverMain, ...(options.args ?? [])], {
    cwd: root,
    env: env as NodeJS.ProcessEnv,
    stdio: ["ignore", "pipe", "pipe"],
  });
  return new ServerProcess(child);
}

/** A directory for one test; `dispose` removes it. */
export function temporaryDirectory(): { readonly path: string; dispose(): void } {
  const path = mkdtempSync(join(tmpdir(), "codeq-test-"));
  return { path, dispose: () => rmSync(path, { recursive: true, force: true, maxRetries: 3 }) };
}
