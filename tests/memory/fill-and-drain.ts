/**
 * Creates so many tasks on a real server, then claims and completes all of them, and watches what memory
 * the process takes. The server is started as `npm start` does, so that its settings of Node apply.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { launchServer } from "../../packages/server/src/start/launch.ts";
import { ApiClient } from "../e2e/api-client.ts";
import { Child, root, temporaryDirectory } from "../e2e/server-process.ts";
import type { MemoryGroup } from "./memory-group.ts";

export interface LoadOptions {
  readonly tasks: number;
  readonly payloadBytes: number;
  readonly durability: string;
  readonly group: MemoryGroup | undefined;
  readonly onProgress: (progress: Progress) => void;
}

export interface Progress {
  readonly phase: "fill" | "drain";
  readonly tasks: number;
  readonly perSecond: number;
  readonly memory: Memory;
}

export interface Memory {
  /** Bytes that only the process holds. */
  readonly own: number;
  /** With the files that are mapped into its memory, which the system takes back when it needs room. */
  readonly resident: number;
}

export interface LoadReport {
  readonly idle: Memory;
  /** The most that was seen, of each. */
  readonly filling: Memory;
  readonly draining: Memory;
  /** A moment after the last task. */
  readonly after: Memory;
  readonly completed: number;
  /** Undefined when it served to the end. */
  readonly ended: string | undefined;
}

const createTasksMax = 1000;
const claimTasks = 256;
const clients = 4;
const progressMs = 10_000;
const lookMs = 50;
/** Below the limit of a request. */
const bodyBytesMax = 2 * 1024 * 1024;
/** How long after its connections the end of a process shows. */
const endMs = 1000;

export async function fillAndDrain(options: LoadOptions): Promise<LoadReport> {
  const directory = temporaryDirectory();
  const server = await start(directory.path, options);
  try {
    return await new Load(server.child, server.port, options).run();
  } finally {
    await server.child.kill();
    directory.dispose();
  }
}

async function start(
  dataDir: string,
  { durability, group }: LoadOptions,
): Promise<{ readonly child: Child; readonly port: number }> {
  const child = new Child(
    launchServer({
      args: [],
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        PATH: process.env["PATH"],
        NODE_COMPILE_CACHE: join(root, "node_modules/.cache/compile"),
        PORT: "0",
        WORKER_STREAM_ADDR: "off",
        PRODUCER_STREAM_ADDR: "off",
        CODEQ_DATA_DIR: dataDir,
        CODEQ_DURABILITY: durability,
      },
    }),
  );
  group?.add(child.pid);
  const line = await child.line((each) => each.includes('"listening"'));
  return { child, port: (JSON.parse(line) as { port: number }).port };
}

class Load {
  readonly #server: Child;
  readonly #api: ApiClient;
  readonly #options: LoadOptions;
  readonly #most: Record<"fill" | "drain", Memory> = {
    fill: { own: 0, resident: 0 },
    drain: { own: 0, resident: 0 },
  };
  #phase: "fill" | "drain" = "fill";
  #done = 0;

  constructor(server: Child, port: number, options: LoadOptions) {
    this.#server = server;
    this.#api = new ApiClient(port, clients);
    this.#options = options;
  }

  async run(): Promise<LoadReport> {
    const idle = memoryOf(this.#server.pid);
    const ended = this.#server.exited.then(({ signal, code }) => `it ended: ${signal ?? code}`);
    const worked = this.#work().then(
      () => undefined,
      // Requests that were cut off are no news when the server has ended.
      (error: Error) => Promise.race([ended, soon(`it did not serve: ${error.message}`)]),
    );
    const looking = setInterval(() => this.#look(), lookMs);
    const how = await Promise.race([ended, worked]);
    clearInterval(looking);
    const after = how === undefined ? memoryOf(this.#server.pid) : idle;
    this.#api.close();
    const { fill: filling, drain: draining } = this.#most;
    const completed = this.#phase === "drain" ? this.#done : 0;
    return { idle, filling, draining, after, completed, ended: how };
  }

  async #work(): Promise<void> {
    const { tasks, payloadBytes } = this.#options;
    const payload = `"${"x".repeat(payloadBytes)}"`;
    const createTasks = Math.min(createTasksMax, Math.ceil(bodyBytesMax / (payloadBytes + 30)));
    const items = Array.from({ length: createTasks }, () => `{"command":"c","payload":${payload}}`);
    const body = `{"tasks":[${items.join(",")}]}`;
    let asked = 0;
    await this.#each("fill", async () => {
      if (asked >= tasks) return 0;
      asked += createTasks;
      await this.#post("/tasks/batch", body);
      return createTasks;
    });
    await this.#each("drain", async () => {
      const claimed = await this.#post("/tasks/claim/batch", `{"count":${claimTasks}}`);
      const { tasks: found } = JSON.parse(claimed) as { tasks: { id: string }[] };
      if (found.length === 0) return 0;
      const results = found.map(({ id: taskId }) => ({ taskId, status: "COMPLETED", result: {} }));
      await this.#post("/tasks/batch/results", JSON.stringify({ results }));
      return found.length;
    });
  }

  /** Several at once, each until there is nothing left to do. */
  async #each(phase: "fill" | "drain", once: () => Promise<number>): Promise<void> {
    this.#phase = phase;
    this.#done = 0;
    let lastMs = performance.now();
    let lastDone = 0;
    const client = async (): Promise<void> => {
      for (;;) {
        const count = await once();
        if (count === 0) return;
        this.#done += count;
        const nowMs = performance.now();
        if (nowMs - lastMs < progressMs) continue;
        const perSecond = ((this.#done - lastDone) / (nowMs - lastMs)) * 1000;
        const memory = memoryOf(this.#server.pid);
        this.#options.onProgress({ phase, tasks: this.#done, perSecond, memory });
        lastMs = nowMs;
        lastDone = this.#done;
      }
    };
    await Promise.all(Array.from({ length: clients }, client));
  }

  async #post(path: string, body: string): Promise<string> {
    const { status, text } = await this.#api.post(path, body);
    if (status === 204) return '{"tasks":[]}';
    if (status !== 200 || text.includes('"error"')) {
      throw new Error(`${path} was answered with ${status}: ${text.slice(0, 300)}`);
    }
    return text;
  }

  #look(): void {
    const memory = memoryOf(this.#server.pid);
    const most = this.#most[this.#phase];
    this.#most[this.#phase] = {
      own: Math.max(most.own, memory.own),
      resident: Math.max(most.resident, memory.resident),
    };
  }
}

function soon(text: string): Promise<string> {
  return new Promise((resolve) => setTimeout(() => resolve(text), endMs));
}

/** Zeros when the process is gone. */
function memoryOf(pid: number): Memory {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const bytes = (name: string): number =>
      Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1] ?? 0) * 1024;
    return { own: bytes("RssAnon"), resident: bytes("VmRSS") };
  } catch {
    // There is no such file for a process that has ended.
    return { own: 0, resident: 0 };
  }
}
