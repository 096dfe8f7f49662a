/**
 * The etcd of a node. It is a separate process: a crash of codeQ leaves it running, and the next start finds it. When
 * it ends by itself, it is started again; when the node stops in order, it is stopped, too. Both also apply to an etcd
 * that an earlier process of the node has started.
 *
 * How an etcd without data gets its data, so that no member ever votes that has forgotten what it acknowledged:
 * - If other members answer, it joins them: as a learner, which does not vote before it has copied everything. A
 *   member of this node that was there before has lost its disk, and is removed first.
 * - If none answers, it waits, unless this node begins the cluster.
 *
 * An etcd ends when its disk is full, and the others answer nothing until they have elected a leader, if it was their
 * leader. So it hands that over as soon as the disk is nearly full, and is not started before there is some room.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, openSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { FaultError } from "@codeq/engine";
import type { EtcdMember, EtcdServers } from "@codeq/engine/etcd";
import type { Clock } from "../../core/clock.ts";
import { type Logger, SpacedWarnings } from "../../telemetry/logger.ts";
import { hostAndPort } from "../peers/peers.ts";
import { type EtcdConfig, type EtcdPeer, etcdArguments } from "./etcd-arguments.ts";

const startAgainMs = 1000;
/** With less room, etcd would end soon after its start, perhaps as the leader of the others. */
const startBytesMin = 16 * 1024 * 1024;
const lookAtDiskMs = 1000;
const askAgainMs = 200;
const stopAskMs = 20;
/** How long an etcd that stops may hand over, before it is killed. */
const stopMsMax = 5000;

export interface EtcdProcessParts {
  readonly program: string;
  readonly config: Omit<EtcdConfig, "members" | "isJoining">;
  /** All nodes, this one included, as far as the settings name them. */
  readonly members: readonly EtcdPeer[];
  /** The client URLs of the other nodes. */
  readonly otherUrls: readonly string[];
  readonly servers: EtcdServers;
  /** Why this node must not begin a cluster; undefined when it may. */
  readonly whyNotBegin: () => string | undefined;
  /** The room on the disk of etcd. */
  readonly freeBytes: () => Promise<number>;
  /** With less room, the disk is considered full. */
  readonly minFreeBytes: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Who etcd begins with. */
type Start = Pick<EtcdConfig, "members" | "isJoining">;

export class EtcdProcess implements AsyncDisposable {
  readonly #parts: EtcdProcessParts;
  readonly #warnings: SpacedWarnings;
  readonly #ended: Promise<void>;
  #child: ChildProcess | undefined;
  #problem: string | undefined;
  #isStopping = false;
  #wake: () => void = () => {};
  #cancelLook: () => void = () => {};

  constructor(parts: EtcdProcessParts) {
    this.#parts = parts;
    this.#warnings = new SpacedWarnings(parts.logger, parts.clock);
    mkdirSync(parts.config.directory, { recursive: true, mode: 0o700 });
    this.#ended = this.#run();
    this.#planLook(false);
  }

  /** Why it does not run. */
  get problem(): string | undefined {
    return this.#problem;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopping = true;
    this.#cancelLook();
    this.#wake();
    const child = this.#child;
    if (child === undefined) await this.#stopEarlier();
    else await this.#stop(child);
    await this.#ended;
  }

  async #run(): Promise<void> {
    while (!this.#isStopping) {
      if (await isTaken(this.#parts.config.clientAddress)) await this.#watchEarlier();
      else await this.#startOne();
    }
  }

  async #startOne(): Promise<void> {
    try {
      const freeBytes = await this.#parts.freeBytes();
      if (freeBytes < startBytesMin) {
        this.#report(
          `the disk is full (${freeBytes} bytes are free); etcd starts when there is room`,
        );
        await this.#pause(startAgainMs);
        return;
      }
      const start = await this.#plan();
      if (start === undefined || this.#isStopping) {
        await this.#pause(askAgainMs);
        return;
      }
      this.#problem = undefined;
      const how = await this.#live(start);
      if (this.#isStopping) return;
      this.#report(`etcd has ended (${how}) and is started again; ${this.#logFile} says why`);
    } catch (error) {
      if (!(error instanceof FaultError)) throw error;
      this.#report(error.message);
    }
    await this.#pause(startAgainMs);
  }

  /** Undefined when it has to be asked again. */
  async #plan(): Promise<Start | undefined> {
    const { config, members, servers, otherUrls, whyNotBegin } = this.#parts;
    if (hasData(config.directory)) return { members, isJoining: true };
    const self = members.find(({ name }) => name === config.name) as EtcdPeer;
    let found: readonly EtcdMember[];
    try {
      found = await servers.members();
    } catch (error) {
      const isAnyUp = await Promise.all(otherUrls.map((url) => servers.isUp(url)));
      const why = isAnyUp.includes(true) ? (error as Error).message : whyNotBegin();
      if (why === undefined) return { members: [self], isJoining: false };
      this.#report(`the log server waits for those of the other nodes: ${why}`);
      return undefined;
    }
    return await this.#join(found, self);
  }

  async #join(found: readonly EtcdMember[], self: EtcdPeer): Promise<Start | undefined> {
    const { servers, config, logger } = this.#parts;
    const own = `${schemeOf(config)}://${self.address}`;
    const same = found.find(({ peerUrls }) => peerUrls.includes(own));
    const isNew = same !== undefined && same.clientUrls.length === 0 && same.isLearner;
    if (isNew) {
      const members = found.map(({ name, peerUrls }, at) => ({
        name: peerUrls.includes(own) ? self.name : name || `joining-${at}`,
        address: addressOf(peerUrls[0] ?? ""),
      }));
      return { members, isJoining: true };
    }
    const before = same ?? found.find(({ name }) => name === self.name);
    if (before !== undefined) {
      logger.warn("the log server of this node has no data; it joins the others as a new member");
      await servers.removeMember(before.id);
    }
    await servers.addLearner(own);
    return undefined;
  }

  /** Runs it; resolves with how it ended. */
  async #live(start: Start): Promise<string> {
    const { program, config } = this.#parts;
    // What it says before it can write its own log.
    const output = openSync(join(config.directory, "etcd.out"), "w");
    const child = spawn(program, etcdArguments({ ...config, ...start }), {
      detached: true,
      // With more threads, Go wakes one for another after every message, and etcd is not faster.
      // biome-ignore lint/style/noProcessEnv: etcd gets the environment of its node.
      env: { GOMAXPROCS: "1", ...process.env },
      stdio: ["ignore", output, output],
    });
    this.#child = child;
    writeFileSync(join(config.directory, "etcd.pid"), String(child.pid ?? 0));
    const ended = new Promise<string>((resolve) => {
      child.once("error", (error) => resolve(error.message));
      child.once("exit", (code, signal) => resolve(String(signal ?? code)));
    });
    void this.#promote(child);
    const how = await ended;
    this.#child = undefined;
    return how;
  }

  /** A learner becomes a member that votes as soon as it has copied everything. */
  async #promote(child: ChildProcess): Promise<void> {
    const { servers, config } = this.#parts;
    while (this.#child === child && !this.#isStopping) {
      try {
        const found = await servers.members();
        const own = found.find(({ name }) => name === config.name);
        if (own !== undefined && (!own.isLearner || (await servers.promote(own.id)))) return;
      } catch (error) {
        // Without a majority, no member can tell; asked again below.
        if (!(error instanceof FaultError)) throw error;
      }
      await new Promise<void>((resolve) => void this.#parts.clock.after(askAgainMs, resolve));
    }
  }

  #planLook(wasFull: boolean): void {
    this.#cancelLook = this.#parts.clock.after(lookAtDiskMs, () => {
      void this.#lookAtDisk(wasFull).then((isFull) => {
        if (!this.#isStopping) this.#planLook(isFull);
      });
    });
  }

  /** Whether the disk is full, and etcd does not lead the others any more. */
  async #lookAtDisk(wasFull: boolean): Promise<boolean> {
    const { servers, config, freeBytes, minFreeBytes } = this.#parts;
    try {
      if ((await freeBytes()) >= minFreeBytes) return false;
      // Once: the disk of the next leader may be as full.
      if (!wasFull) await servers.stepDown(config.name);
      return true;
    } catch (error) {
      if (!(error instanceof FaultError)) throw error;
      return false;
    }
  }

  get #logFile(): string {
    return join(this.#parts.config.directory, "etcd.log");
  }

  #report(problem: string): void {
    this.#problem = problem;
    this.#warnings.warn("the log server of this node does not run", { problem });
  }

  /** Watches an etcd that is not a child of this process, by connecting to its port. */
  async #watchEarlier(): Promise<void> {
    const { config, logger } = this.#parts;
    logger.info("an etcd runs already; it is used", { address: config.clientAddress });
    this.#problem = undefined;
    while (!this.#isStopping && (await isTaken(config.clientAddress))) {
      await this.#pause(startAgainMs);
    }
    if (!this.#isStopping) this.#report("etcd has ended and is started again");
  }

  async #stop(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    const cancel = this.#parts.clock.after(stopMsMax, () => void child.kill("SIGKILL"));
    await ended;
    cancel();
  }

  async #stopEarlier(): Promise<void> {
    const { clock, config } = this.#parts;
    const pid = pidIn(config.directory);
    if (pid === undefined || !(await isTaken(config.clientAddress))) return;
    const startedMs = clock.monotonicMs();
    signal(pid, "SIGTERM");
    const isLate = (): boolean => clock.monotonicMs() - startedMs > stopMsMax;
    // It closes its port first, and its files last: another one cannot open them before.
    while ((await isTaken(config.clientAddress)) || (isRunning(pid) && !isLate())) {
      if (isLate()) signal(pid, "SIGKILL");
      await new Promise<void>((resolve) => void clock.after(stopAskMs, resolve));
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#parts.clock.after(ms, () => this.#wake());
      this.#wake = () => {
        this.#wake = () => {};
        cancel();
        resolve();
      };
      if (this.#isStopping) this.#wake();
    });
  }
}

function schemeOf({ tls }: Pick<EtcdConfig, "tls">): string {
  return tls === undefined ? "http" : "https";
}

function addressOf(url: string): string {
  return url.slice(url.indexOf("://") + 3);
}

/** Whether etcd has begun to keep what others rely on. */
function hasData(directory: string): boolean {
  const wal = join(directory, "data", "member", "wal");
  return existsSync(wal) && readdirSync(wal).length > 0;
}

/** The pid of an etcd that runs with this directory; undefined when none was started. */
function pidIn(directory: string): number | undefined {
  const path = join(directory, "etcd.pid");
  return existsSync(path) ? Number(readFileSync(path, "utf8")) || undefined : undefined;
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // The process has ended meanwhile.
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    // There is no such process any more.
    return false;
  }
}

/** Whether a process listens on the address. */
async function isTaken(address: string): Promise<boolean> {
  const socket = connect(hostAndPort(address));
  try {
    await once(socket, "connect");
    return true;
  } catch {
    // The connection was refused: no process listens.
    return false;
  } finally {
    socket.destroy();
  }
}
