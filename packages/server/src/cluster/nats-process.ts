/**
 * The nats-server that belongs to a node. It is a process of its own: a crash of codeQ leaves it running,
 * and the next start finds it. When it ends by itself it is started again; when the node stops in order, it
 * is stopped, too.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, openSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { FaultError } from "@codeq/engine";
import type { Clock } from "../clock.ts";
import type { Logger } from "../telemetry/logger.ts";
import { type NatsConfig, natsConfigText } from "./nats-config.ts";
import { hostAndPort } from "./peers.ts";

/** Older ones have mistakes in their consensus that matter here. */
const versionMin: readonly number[] = [2, 14, 5];
const startAgainMs = 1000;

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
    } else server.#spawn();
    return server;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopping = true;
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    await ended;
  }

  #spawn(): void {
    const { binary, config, logger, clock } = this.#parts;
    const output = openSync(join(config.directory, "nats.log"), "a");
    const child = spawn(binary, ["-c", this.#configFile], {
      detached: true,
      stdio: ["ignore", output, output],
    });
    this.#child = child;
    child.on("error", () => {
      // Told by `exit`, or by nobody being able to connect.
    });
    child.once("exit", (code, signal) => {
      if (this.#isStopping) return;
      const log = join(config.directory, "nats.log");
      logger.error("nats-server has ended; it is started again", { code, signal, log });
      clock.after(startAgainMs, () => {
        if (!this.#isStopping) this.#spawn();
      });
    });
  }
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

/** Whether somebody listens there. */
async function isTaken(address: string): Promise<boolean> {
  const socket = connect(hostAndPort(address));
  try {
    await once(socket, "connect");
    return true;
  } catch {
    // Refused: nobody does.
    return false;
  } finally {
    socket.destroy();
  }
}
