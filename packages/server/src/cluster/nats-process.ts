/**
 * The nats-server of a node. It is a separate process: a crash of codeQ leaves it running, and the next start finds
 * it. When it ends by itself, it is started again; when the node stops in order, it is stopped, too. Both also apply
 * to a server that an earlier process of the node has started.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { FaultError } from "@codeq/engine";
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../telemetry/logger.ts";
import { type NatsConfig, natsConfigText } from "./nats-config.ts";
import { hostAndPort } from "./peers.ts";

/** Older versions have bugs in their consensus that matter here. */
const versionMin: readonly number[] = [2, 14, 5];
const startAgainMs = 1000;
const askAgainMs = 20;

export interface NatsProcessParts {
  readonly binary: string;
  readonly config: NatsConfig;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class NatsProcess implements AsyncDisposable {
  readonly #parts: NatsProcessParts;
  readonly #configFile: string;
  #child: ChildProcess | undefined;
  #isStopping = false;
  #cancelWatch: () => void = () => {};

  private constructor(parts: NatsProcessParts) {
    this.#parts = parts;
    const { directory } = parts.config;
    mkdirSync(directory, { recursive: true, mode: 0o750 });
    this.#configFile = join(directory, "nats.conf");
    writeFileSync(this.#configFile, natsConfigText(parts.config), { mode: 0o600 });
  }

  static async start(parts: NatsProcessParts): Promise<NatsProcess> {
    assertVersion(parts.binary);
    const server = new NatsProcess(parts);
    const { clientAddress } = parts.config;
    if (await isTaken(clientAddress)) {
      parts.logger.info("a nats-server runs already; it is used", { address: clientAddress });
      server.#watchEarlier();
    } else server.#spawn();
    return server;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopping = true;
    this.#cancelWatch();
    const child = this.#child;
    if (child === undefined) {
      await this.#stopEarlier();
      return;
    }
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    await ended;
  }

  #spawn(): void {
    const { binary, config, clock } = this.#parts;
    const output = openSync(join(config.directory, "nats.log"), "a");
    const child = spawn(binary, ["-c", this.#configFile], {
      detached: true,
      stdio: ["ignore", output, output],
    });
    this.#child = child;
    child.on("error", () => {
      // The event `exit`, or failing connections, report it.
    });
    child.once("exit", (code, signal) => {
      if (this.#isStopping) return;
      this.#tellEnd({ code, signal });
      this.#cancelWatch = clock.after(startAgainMs, () => this.#spawn());
    });
  }

  #tellEnd(how: Readonly<Record<string, unknown>>): void {
    const log = join(this.#parts.config.directory, "nats.log");
    this.#parts.logger.error("nats-server has ended; it is started again", { ...how, log });
  }

  /** Watches a server that is not a child of this process, by connecting to its port. */
  #watchEarlier(): void {
    const { clock, config } = this.#parts;
    this.#cancelWatch = clock.after(startAgainMs, () => {
      void isTaken(config.clientAddress).then((isThere) => {
        if (this.#isStopping) return;
        if (isThere) {
          this.#watchEarlier();
          return;
        }
        this.#tellEnd({});
        this.#spawn();
      });
    });
  }

  async #stopEarlier(): Promise<void> {
    const { clock, config } = this.#parts;
    const pid = pidIn(config.directory);
    if (pid === undefined || !(await isTaken(config.clientAddress))) return;
    try {
      process.kill(pid, "SIGTERM");
    } catch {
      // The process has ended meanwhile.
    }
    while (await isTaken(config.clientAddress)) {
      await new Promise<void>((resolve) => void clock.after(askAgainMs, resolve));
    }
  }
}

/** The pid of a nats-server that runs with this directory; undefined when none was started. */
function pidIn(directory: string): number | undefined {
  const path = join(directory, "nats.pid");
  return existsSync(path) ? Number(readFileSync(path, "utf8")) : undefined;
}

function assertVersion(binary: string): void {
  const { stdout, error } = spawnSync(binary, ["--version"], { encoding: "utf8" });
  const wanted = versionMin.join(".");
  const advice = `Install nats-server ${wanted} or newer and set natsServer, or set natsUrls`;
  if (error !== undefined) {
    throw new FaultError("format", `${binary} cannot be run: ${error.message}. ${advice}.`);
  }
  const version = /v(\d+)\.(\d+)\.(\d+)/.exec(stdout)?.slice(1).map(Number) ?? [];
  const at = versionMin.findIndex((part, place) => part !== version[place]);
  if (at < 0 || (version[at] ?? 0) > (versionMin[at] ?? 0)) return;
  throw new FaultError("format", `${binary} is ${stdout.trim()}, which is too old. ${advice}.`);
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
