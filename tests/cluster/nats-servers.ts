/** Real log servers for tests: one, or three that keep every stream together, on ports of their own. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { natsConfigText, natsUrl } from "../../packages/server/src/cluster/nats-config.ts";
import { freePortRows } from "./free-ports.ts";

const password = "of the tests";
const storeBytesMax = 4 * 1024 ** 3;
const heldMs = 200;

export class NatsServersOfTest implements AsyncDisposable {
  readonly urls: readonly string[];
  readonly #binary: string;
  readonly #directory: string;
  readonly #configs: readonly string[];
  readonly #processes: (ChildProcess | undefined)[];

  private constructor(parts: {
    readonly binary: string;
    readonly directory: string;
    readonly urls: readonly string[];
    readonly configs: readonly string[];
  }) {
    this.#binary = parts.binary;
    this.#directory = parts.directory;
    this.urls = parts.urls;
    this.#configs = parts.configs;
    this.#processes = parts.configs.map(() => undefined);
  }

  static async start(binary: string, count: 1 | 3): Promise<NatsServersOfTest> {
    const directory = await mkdtemp(join(tmpdir(), "codeq-nats-"));
    const ports = await freePortRows(count, 2);
    const clients = ports.map((port) => `127.0.0.1:${port}`);
    const routes = ports.map((port) => `127.0.0.1:${port + 1}`);
    const configs: string[] = [];
    for (const [at, clientAddress] of clients.entries()) {
      const path = join(directory, `nats-${at}.conf`);
      const text = natsConfigText({
        serverName: `server-${at}`,
        clientAddress,
        routes: count === 1 ? undefined : { address: routes[at] as string, all: routes },
        directory: join(directory, `store-${at}`),
        password,
        storeBytesMax,
      });
      await mkdir(join(directory, `store-${at}`));
      await writeFile(path, text);
      configs.push(path);
    }
    const urls = clients.map((address) => natsUrl(address, password));
    const servers = new NatsServersOfTest({ binary, directory, urls, configs });
    await Promise.all(configs.map((_, at) => servers.startServer(at)));
    return servers;
  }

  /** Resolves when it takes connections. */
  async startServer(at: number): Promise<void> {
    const child = spawn(this.#binary, ["-c", this.#configs[at] as string], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.#processes[at] = child;
    const lines: string[] = [];
    const output = createInterface({ input: child.stderr });
    const ready = new Promise<void>((resolve, reject) => {
      output.on("line", (line) => {
        lines.push(line);
        if (line.includes("Server is ready")) resolve();
      });
      child.once("exit", () => reject(new Error(`nats-server ended:\n${lines.join("\n")}`)));
    });
    await ready;
  }

  /**
   * A request that nobody answers, until the client gives it up. Whoever asks again without a pause takes the CPU
   * from the servers that it waits for.
   */
  async holdRequest(): Promise<void> {
    const connection = await this.#connect();
    connection.subscribe("held");
    await connection.request("held", "", { timeout: heldMs }).catch(() => {});
    await connection.close();
  }

  /** As an operator would with the command line of NATS. */
  async removeStream(name: string): Promise<void> {
    const connection = await this.#connect();
    await connection.request(`$JS.API.STREAM.DELETE.${name}`);
    await connection.close();
  }

  async #connect(): Promise<NatsConnection> {
    const { username, password: pass } = new URL(this.urls[0] ?? "");
    const servers = this.urls.map((url) => new URL(url).host);
    return await connect({ servers, user: username, pass: decodeURIComponent(pass) });
  }

  async kill(at: number): Promise<void> {
    const child = this.#processes[at];
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#processes.map((_, at) => this.kill(at)));
    await rm(this.#directory, { recursive: true, force: true });
  }
}
