/**
 * `cluster dev`: three nodes on this machine, with an etcd each, to try what a cluster does when a
 * node is killed. A node that ends is restarted after a while.
 */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { launchServer } from "@codeq/server/command-line";
import type { Call } from "../../call.ts";
import { exitCodes } from "../../exit-codes.ts";
import { freePortRow, type LogLine, readLogLines } from "../../local/server-process.ts";

const ids = ["a", "b", "c"] as const;
/** For other nodes, for clients of its etcd, and for the other members. */
const portsEach = 3;
const startAgainMs = 10_000;
const logBytes = 256 * 1024 * 1024;
const secretBytes = 32;

type NodeId = (typeof ids)[number];

export async function dev(call: Call): Promise<number> {
  const cluster = await DevCluster.prepare(call);
  const stopped = call.host.stopped();
  const over = Promise.withResolvers<number>();
  for (const id of ids) cluster.start(id, (code) => over.resolve(code));
  stopped.addEventListener("abort", () => over.resolve(exitCodes.ok.code), { once: true });
  const code = await over.promise;
  await cluster.stop();
  if (code === exitCodes.ok.code) call.note(`stopped; the data stays in ${cluster.shownFolder}`);
  return code;
}

class DevCluster {
  readonly #call: Call;
  readonly #folder: string;
  readonly #env: Readonly<Record<string, string | undefined>>;
  readonly #nodes: Map<NodeId, ChildProcess> = new Map();
  #isStopping = false;

  private constructor(
    call: Call,
    folder: string,
    env: Readonly<Record<string, string | undefined>>,
  ) {
    this.#call = call;
    this.#folder = folder;
    this.#env = env;
  }

  static async prepare(call: Call): Promise<DevCluster> {
    const folder = join(call.host.directory, ".codeq", "cluster");
    mkdirSync(folder, { recursive: true });
    const ignore = join(folder, "..", ".gitignore");
    if (!existsSync(ignore)) writeFileSync(ignore, "*\n");
    const secretFile = join(folder, "secret");
    if (!existsSync(secretFile)) {
      const secret = call.host.random(secretBytes).toString("base64url");
      writeFileSync(secretFile, secret, { mode: 0o600 });
    }
    const nodes: string[] = [];
    let from = 7000;
    for (const id of ids) {
      from = await freePortRow(from, portsEach);
      nodes.push(`${id}=127.0.0.1:${from}`);
      from += portsEach;
    }
    return new DevCluster(call, folder, {
      CODEQ_CLUSTER_SECRET: readFileSync(secretFile, "utf8"),
      CODEQ_CLUSTER_MEMBERS: nodes.join(","),
      CODEQ_CLUSTER_LOG_BYTES: String(logBytes),
      CODEQ_ENV: "dev",
      ...call.host.env,
    });
  }

  get shownFolder(): string {
    return relative(this.#call.host.directory, this.#folder);
  }

  /** `onEnd` hears of a node that ends before it listens: starting it again would not help. */
  start(id: NodeId, onEnd: (code: number) => void): void {
    const { host, serverArgs } = this.#call;
    const args = [
      "--log-format=json",
      "--port=0",
      "--worker-stream-addr=:0",
      "--producer-stream-addr=:0",
      "--connections-max=1000",
      ...serverArgs,
      `--node-id=${id}`,
      `--data-dir=${join(this.#folder, id)}`,
      `--cluster-bootstrap=${ids[0]}`,
    ];
    const server = launchServer({ args, env: this.#env, stdio: ["ignore", "pipe", "inherit"] });
    this.#nodes.set(id, server);
    let hasListened = false;
    if (server.stdout !== null) {
      readLogLines(server.stdout, (line) => {
        if (line.msg === "listening") {
          hasListened = true;
          this.#print(id, `http://127.0.0.1:${String(line.fields["port"])}, pid ${server.pid}`);
        } else this.#show(id, line);
      });
    }
    server.once("exit", (code, signal) => {
      this.#nodes.delete(id);
      if (this.#isStopping) return;
      if (!hasListened) {
        onEnd(code ?? exitCodes.failed.code);
        return;
      }
      const seconds = startAgainMs / 1000;
      this.#print(id, `has ended (${signal ?? code}); it is started again in ${seconds} seconds`);
      host.clock.after(startAgainMs, () => {
        if (!this.#isStopping) this.start(id, onEnd);
      });
    });
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    const ended = [...this.#nodes.values()].map(async (server) => {
      const end = once(server, "exit");
      server.kill("SIGTERM");
      await end;
    });
    await Promise.all(ended);
  }

  #show(id: NodeId, line: LogLine): void {
    if (this.#call.json) {
      this.#call.print(line.text);
      return;
    }
    const { shard, role, epoch, error, problem } = line.fields;
    if (line.msg === "cluster" && role === "leading") {
      this.#print(id, `leads shard ${String(shard)} (epoch ${String(epoch)})`);
    } else if (line.level === "error" || line.level === "warn") {
      const why = problem ?? error;
      this.#print(id, why === undefined ? line.msg : `${line.msg}: ${String(why)}`);
    }
  }

  #print(id: NodeId, text: string): void {
    if (this.#call.json) this.#call.printJson({ node: id, text });
    else this.#call.print(`node ${this.#call.style.bold(id)}  ${text}`);
  }
}
