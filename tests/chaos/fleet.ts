/** The machines of a campaign: on each of the three run a node and the etcd that the node starts, on a disk of its own. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { openSync, readFileSync } from "node:fs";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import {
  EtcdServers,
  type EtcdServersOptions,
} from "../../packages/engine/src/log/replicated/etcd/etcd-servers.ts";
import { etcdArguments } from "../../packages/server/src/cluster/etcd/etcd-arguments.ts";
import { clusterCertificate } from "../../packages/server/src/cluster/peers/cluster-certificates.ts";
import { systemClock } from "../../packages/server/src/core/clock.ts";
import { root } from "../e2e/server-process.ts";
import type { Network } from "./network.ts";

export const nodeNames: readonly string[] = ["a", "b", "c"];

const secret = "the secret of the nodes of the campaign";
const httpPort = 8080;
const peerPort = 7000;
/** Where log servers reach each other. */
export const logPeerPort: number = peerPort + 2;
const logBytes = 256 * 1024 ** 2;
/** etcd prepares files of 64 MB for its next records. */
const diskMegabytes = 700;
const fullLeftMegabytes = 1;
const main = join(root, "packages/server/src/start/main.ts");
const clockHook = join(import.meta.dirname, "stepped-clock.ts");

export interface FleetOptions {
  readonly network: Network;
  /** Data and output of all processes. */
  readonly directory: string;
  readonly etcdProgram: string;
  readonly shards: number;
  /** Flags of Node for the nodes. */
  readonly nodeArgs: readonly string[];
}

export class Fleet implements AsyncDisposable {
  readonly #options: FleetOptions;
  readonly #nodes: Map<string, ChildProcess> = new Map();
  readonly #paused: Set<number> = new Set();
  /** Processes that are being ended. */
  readonly #ending: Set<ChildProcess> = new Set();
  /** Who ended by itself, and how. */
  readonly deaths: string[] = [];
  #hasLogs = false;
  #hasDisks = false;

  constructor(options: FleetOptions) {
    this.#options = options;
  }

  /** How to reach the log servers. */
  get etcd(): EtcdServersOptions {
    return {
      urls: nodeNames.map((node) => `https://${this.#address(node, peerPort + 1)}`),
      node: "campaign",
      clock: systemClock,
      tls: clusterCertificate([secret], "campaign", ["127.0.0.1"]),
    };
  }

  url(node: string): string {
    return `http://${this.#address(node, httpPort)}`;
  }

  dataDir(node: string): string {
    return join(this.#options.directory, node);
  }

  /** Every node gets a disk of limited size, which can be filled. */
  async makeDisks(): Promise<void> {
    for (const node of nodeNames) {
      await mkdir(this.dataDir(node), { recursive: true });
      const options = ["-t", "tmpfs", "-o", `size=${diskMegabytes}m`, "tmpfs", this.dataDir(node)];
      const { status, stderr } = spawnSync("mount", options, { encoding: "utf8" });
      if (status !== 0) throw new Error(`mount: ${stderr}`);
    }
    this.#hasDisks = true;
  }

  isUp(node: string): boolean {
    const child = this.#nodes.get(node);
    return child !== undefined && hasNotEnded(child);
  }

  async start(node: string): Promise<void> {
    if (this.isUp(node)) return;
    await mkdir(this.dataDir(node), { recursive: true });
    this.#startNode(node);
  }

  /** Ends the node as a crash would; its etcd goes on. */
  async kill(node: string): Promise<void> {
    await this.#end(node, "SIGKILL");
  }

  async killLog(node: string): Promise<void> {
    await this.#signalLog(node, "SIGKILL");
  }

  /** Both at once, as if the machine had lost power. */
  async killMachine(node: string): Promise<void> {
    await Promise.all([this.kill(node), this.killLog(node)]);
  }

  /** Asks the node to stop; how it ended. */
  stop(node: string): Promise<number | null> {
    return this.#end(node, "SIGTERM");
  }

  pauseNode(node: string): void {
    const { pid } = this.#nodes.get(node) ?? {};
    if (pid !== undefined && this.isUp(node)) this.#pause(pid);
  }

  async pauseLog(node: string): Promise<void> {
    const pid = await this.#logPid(node);
    if (pid !== undefined) this.#pause(pid);
  }

  /** The machine loses everything that it has. */
  async wipe(node: string): Promise<void> {
    for (const name of await readdir(this.dataDir(node))) {
      await rm(join(this.dataDir(node), name), { recursive: true, force: true });
    }
  }

  async fillDisk(node: string): Promise<void> {
    const file = join(this.dataDir(node), "filler");
    // Ends when the disk is full.
    spawnSync("dd", ["if=/dev/zero", `of=${file}`, "bs=1M"], { stdio: "ignore" });
    spawnSync("truncate", [`--size=-${fullLeftMegabytes}M`, file]);
  }

  /** The clock of the node is this much ahead from now on. */
  async stepClock(node: string, aheadMs: number): Promise<void> {
    await writeFile(this.#clockFile(node), String(aheadMs));
  }

  /** Whatever was paused or has ended runs again, disks have room, and clocks are right. */
  async heal(): Promise<void> {
    for (const pid of this.#paused) send(pid, "SIGCONT");
    this.#paused.clear();
    for (const node of nodeNames) {
      await rm(join(this.dataDir(node), "filler"), { force: true });
      await this.stepClock(node, 0);
    }
    for (const node of nodeNames) await this.start(node);
  }

  /** Resolves when all log servers count for a majority, and hear each other: they have what one had a moment ago. */
  async logsVote(): Promise<void> {
    await using etcd = new EtcdServers(this.etcd);
    let wanted = Number.NaN;
    for (;;) {
      const members = await etcd.members().catch(() => []);
      const up = await Promise.all(members.map((member) => etcd.health(member)));
      const applied = up.map((health) => health?.applied ?? Number.NaN);
      const isCurrent = applied.every((count) => count >= wanted);
      if (members.length === nodeNames.length && isCurrent) {
        if (members.every(({ isLearner }) => !isLearner)) return;
      }
      wanted = members.length === nodeNames.length ? Math.max(...applied) : Number.NaN;
      await pause(100);
    }
  }

  /** The nodes have stopped, and their log servers with them: these run again, to be read. */
  async startLogs(): Promise<AsyncDisposable> {
    const members = nodeNames.map((node) => ({
      name: node,
      address: this.#address(node, logPeerPort),
    }));
    let isEnding = false;
    const children = nodeNames.map((node) => {
      const directory = join(this.dataDir(node), "etcd");
      const file = (name: string): string => join(directory, name);
      const args = etcdArguments({
        name: node,
        directory,
        clientAddress: this.#address(node, peerPort + 1),
        peerAddress: this.#address(node, logPeerPort),
        members,
        isJoining: true,
        quotaBytes: 2 * logBytes,
        tls: { certFile: file("cert.pem"), keyFile: file("key.pem"), caFile: file("ca.pem") },
        heartbeatMs: 100,
        electionMs: 1000,
      });
      const child = this.#run(node, [this.#options.etcdProgram, ...args], {});
      child.once("exit", (code, signal) => {
        if (isEnding) return;
        const log = readFileSync(file("etcd.log"), "utf8").trimEnd().split("\n").slice(-3);
        this.deaths.push(
          `the log server of ${node} ended with ${signal ?? code}: ${log.join("; ")}`,
        );
      });
      return child;
    });
    return {
      [Symbol.asyncDispose]: async () => {
        isEnding = true;
        const running = children.filter((child) => hasNotEnded(child));
        const ended = running.map((child) => once(child, "exit"));
        for (const child of running) child.kill("SIGKILL");
        await Promise.all(ended);
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const pid of this.#paused) send(pid, "SIGCONT");
    await Promise.all(nodeNames.map((node) => this.kill(node)));
    await Promise.all(nodeNames.map((node) => this.killLog(node)));
  }

  /** After the data was looked at. */
  removeDisks(): void {
    if (!this.#hasDisks) return;
    for (const node of nodeNames) spawnSync("umount", ["--lazy", this.dataDir(node)]);
  }

  #pause(pid: number): void {
    this.#paused.add(pid);
    send(pid, "SIGSTOP");
  }

  async #end(node: string, signal: NodeJS.Signals): Promise<number | null> {
    const child = this.#nodes.get(node);
    if (child === undefined || !this.isUp(node)) return null;
    const ended = once(child, "exit") as Promise<[number | null]>;
    this.#ending.add(child);
    child.kill(signal);
    // A process that is paused hears nothing else.
    if (this.#paused.delete(child.pid ?? 0)) child.kill("SIGCONT");
    const [code] = await ended;
    return code;
  }

  async #logPid(node: string): Promise<number | undefined> {
    const path = join(this.dataDir(node), "etcd", "etcd.pid");
    const pid = Number(await readFile(path, "utf8").catch(() => "0"));
    if (pid === 0) return undefined;
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    return command.includes(this.dataDir(node)) ? pid : undefined;
  }

  async #signalLog(node: string, signal: NodeJS.Signals): Promise<void> {
    const pid = await this.#logPid(node);
    if (pid === undefined) return;
    send(pid, signal);
    this.#paused.delete(pid);
    while ((await this.#logPid(node)) === pid) await pause(5);
  }

  #address(node: string, port: number): string {
    return `${this.#options.network.machine(node).address}:${port}`;
  }

  #clockFile(node: string): string {
    return join(this.#options.directory, `${node}.clock`);
  }

  #startNode(node: string): void {
    const { network, shards, nodeArgs, etcdProgram } = this.#options;
    const members = nodeNames.map((each) => `${each}=${this.#address(each, peerPort)}`);
    const flags = ["--conditions=source", "--import", clockHook, ...nodeArgs];
    const child = this.#run(node, [process.execPath, ...flags, main], {
      NODE_COMPILE_CACHE: join(root, "node_modules/.cache/compile"),
      CHAOS_CLOCK_FILE: this.#clockFile(node),
      CODEQ_ENV: "dev",
      CODEQ_DATA_DIR: this.dataDir(node),
      CODEQ_CLUSTER_MEMBERS: members.join(","),
      CODEQ_NODE_ID: node,
      CODEQ_CLUSTER_SECRET: secret,
      CODEQ_CLUSTER_LOG_BYTES: String(logBytes),
      CODEQ_ETCD_PROGRAM: etcdProgram,
      CODEQ_SHARDS: String(shards),
      CODEQ_INSECURE: "true",
      // Only the first start makes the logs: one that is gone later is noticed, and not made anew.
      ...(this.#hasLogs ? {} : { CODEQ_CLUSTER_BOOTSTRAP: nodeNames[0] ?? "" }),
      HOST: network.machine(node).address,
      PORT: String(httpPort),
      // Nothing uses streams, and nodes on loopback would have the same ports.
      WORKER_STREAM_ADDR: "off",
      PRODUCER_STREAM_ADDR: "off",
      BACKOFF_POLICY: "fixed",
      BACKOFF_BASE_SECONDS: "1",
    });
    this.#nodes.set(node, child);
    child.once("exit", (code, signal) => {
      if (!this.#ending.delete(child)) this.deaths.push(`${node} ended with ${signal ?? code}`);
    });
  }

  /** The logs of the cluster were made. */
  noteLogs(): void {
    this.#hasLogs = true;
  }

  #run(
    node: string,
    command: readonly string[],
    env: Readonly<Record<string, string>>,
  ): ChildProcess {
    const { network, directory } = this.#options;
    const output = openSync(join(directory, `${node}.log`), "a");
    const [program = "", ...args] = [...network.inside(node), ...command];
    return spawn(program, args, {
      cwd: root,
      env: { PATH: process.env["PATH"], ...env },
      stdio: ["ignore", output, output],
    });
  }
}

function hasNotEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null;
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended by itself.
  }
}
