/** The processes of a campaign: three nodes and three log servers, each on a machine of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { openSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { natsConfigText, natsUrl } from "../../packages/server/src/cluster/nats-config.ts";
import { root } from "../e2e/server-process.ts";
import type { Network } from "./network.ts";

export const nodeNames: readonly string[] = ["a", "b", "c"];
export const logNames: readonly string[] = ["log1", "log2", "log3"];

const natsPassword = "of the campaign";
const secret = "the secret of the nodes of the campaign";
const httpPort = 8080;
const peerPort = 7000;
const storeBytesMax = 4 * 1024 ** 3;
const main = join(root, "packages/server/src/start/main.ts");

export interface FleetOptions {
  readonly network: Network;
  /** Data and output of all processes. */
  readonly directory: string;
  readonly natsServer: string;
  readonly shards: number;
  /** Flags of Node for the nodes. */
  readonly nodeArgs: readonly string[];
}

export class Fleet implements AsyncDisposable {
  readonly #options: FleetOptions;
  readonly #processes: Map<string, ChildProcess> = new Map();
  readonly #paused: Set<string> = new Set();
  /** Processes that are being ended. */
  readonly #ending: Set<ChildProcess> = new Set();
  /** Who ended by itself, and how. */
  readonly deaths: string[] = [];
  #hasLogs = false;

  constructor(options: FleetOptions) {
    this.#options = options;
  }

  get natsUrls(): readonly string[] {
    const { network } = this.#options;
    return logNames.map((name) => natsUrl(`${network.machine(name).address}:4222`, natsPassword));
  }

  url(node: string): string {
    return `http://${this.#options.network.machine(node).address}:${httpPort}`;
  }

  dataDir(name: string): string {
    return join(this.#options.directory, name);
  }

  isUp(name: string): boolean {
    const child = this.#processes.get(name);
    return child !== undefined && child.exitCode === null && child.signalCode === null;
  }

  async start(name: string): Promise<void> {
    if (this.isUp(name)) return;
    await mkdir(this.dataDir(name), { recursive: true });
    if (logNames.includes(name)) await this.#startLog(name);
    else this.#startNode(name);
  }

  /** Ends a process as a crash would. */
  async kill(name: string): Promise<void> {
    await this.#end(name, "SIGKILL");
  }

  /** Asks it to stop; how it ended. */
  stop(name: string): Promise<number | null> {
    return this.#end(name, "SIGTERM");
  }

  pause(name: string): void {
    this.#paused.add(name);
    this.#processes.get(name)?.kill("SIGSTOP");
  }

  goOn(name: string): void {
    if (this.#paused.delete(name)) this.#processes.get(name)?.kill("SIGCONT");
  }

  /** A node loses its disk. */
  async wipe(node: string): Promise<void> {
    await rm(join(this.dataDir(node), "replicas"), { recursive: true, force: true });
  }

  /** Whatever was paused or has ended runs again. */
  async heal(): Promise<void> {
    for (const name of [...this.#paused]) this.goOn(name);
    for (const name of [...logNames, ...nodeNames]) await this.start(name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...nodeNames, ...logNames].map((name) => this.kill(name)));
  }

  async #end(name: string, signal: NodeJS.Signals): Promise<number | null> {
    const child = this.#processes.get(name);
    if (child === undefined || !this.isUp(name)) return null;
    const ended = once(child, "exit") as Promise<[number | null]>;
    this.#ending.add(child);
    child.kill(signal);
    // A process that is paused hears nothing else.
    this.goOn(name);
    const [code] = await ended;
    return code;
  }

  async #startLog(name: string): Promise<void> {
    const { network, natsServer } = this.#options;
    const addressOf = (log: string, port: number): string =>
      `${network.machine(log).address}:${port}`;
    const config = natsConfigText({
      serverName: name,
      clientAddress: addressOf(name, 4222),
      routes: { address: addressOf(name, 6222), all: logNames.map((log) => addressOf(log, 6222)) },
      directory: this.dataDir(name),
      password: natsPassword,
      storeBytesMax,
    });
    const path = join(this.dataDir(name), "nats.conf");
    await writeFile(path, config);
    this.#spawn(name, [natsServer, "-c", path], {});
  }

  #startNode(name: string): void {
    const { network, shards, nodeArgs } = this.#options;
    const members = nodeNames.map((node) => `${node}=${network.machine(node).address}:${peerPort}`);
    const command = [process.execPath, "--conditions=source", ...nodeArgs, main];
    this.#spawn(name, command, {
      NODE_COMPILE_CACHE: join(root, "node_modules/.cache/compile"),
      CODEQ_ENV: "dev",
      CODEQ_DATA_DIR: this.dataDir(name),
      CODEQ_CLUSTER_MEMBERS: members.join(","),
      CODEQ_NODE_ID: name,
      CODEQ_CLUSTER_SECRET: secret,
      CODEQ_CLUSTER_LOG_BYTES: String(1024 ** 3),
      CODEQ_NATS_URLS: this.natsUrls.join(","),
      CODEQ_SHARDS: String(shards),
      CODEQ_INSECURE: "true",
      // Only the first start makes the logs: one that is gone later is noticed, and not made anew.
      ...(this.#hasLogs ? {} : { CODEQ_CLUSTER_BOOTSTRAP: String(name === nodeNames[0]) }),
      HOST: network.machine(name).address,
      PORT: String(httpPort),
      // Nothing uses streams, and nodes on loopback would have the same ports.
      WORKER_STREAM_ADDR: "off",
      PRODUCER_STREAM_ADDR: "off",
      BACKOFF_POLICY: "fixed",
      BACKOFF_BASE_SECONDS: "1",
    });
  }

  /** The logs of the cluster were made. */
  noteLogs(): void {
    this.#hasLogs = true;
  }

  #spawn(name: string, command: readonly string[], env: Readonly<Record<string, string>>): void {
    const { network, directory } = this.#options;
    const output = openSync(join(directory, `${name}.log`), "a");
    const [program = "", ...args] = [...network.inside(name), ...command];
    const child = spawn(program, args, {
      cwd: root,
      env: { PATH: process.env["PATH"], ...env },
      stdio: ["ignore", output, output],
    });
    this.#processes.set(name, child);
    child.once("exit", (code, signal) => {
      if (!this.#ending.delete(child)) this.deaths.push(`${name} ended with ${signal ?? code}`);
    });
  }
}
