/** Real log servers for tests: one, or three members of one etcd, on ports of their own. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  EtcdClient,
  etcdMethods,
} from "../../packages/engine/src/log/replicated/etcd/etcd-client.ts";
import { keysOf } from "../../packages/engine/src/log/replicated/etcd/etcd-keys.ts";
import {
  EtcdServers,
  type EtcdServersOptions,
} from "../../packages/engine/src/log/replicated/etcd/etcd-servers.ts";
import {
  answered,
  deleteOp,
} from "../../packages/engine/src/log/replicated/etcd/etcd-shared-log.ts";
import { etcdArguments } from "../../packages/server/src/cluster/etcd/etcd-arguments.ts";
import {
  type ClusterCertificate,
  clusterCertificate,
} from "../../packages/server/src/cluster/peers/cluster-certificates.ts";
import { systemClock } from "../../packages/server/src/core/clock.ts";
import { freePortRows } from "./free-ports.ts";

const host = "127.0.0.1";
const secret = "of the tests";

export class EtcdOfTest implements AsyncDisposable {
  readonly urls: readonly string[];
  readonly #binary: string;
  readonly #directory: string;
  readonly #arguments: readonly (readonly string[])[];
  readonly #processes: (ChildProcess | undefined)[];

  private constructor(parts: {
    readonly binary: string;
    readonly directory: string;
    readonly urls: readonly string[];
    readonly arguments: readonly (readonly string[])[];
  }) {
    this.#binary = parts.binary;
    this.#directory = parts.directory;
    this.urls = parts.urls;
    this.#arguments = parts.arguments;
    this.#processes = parts.arguments.map(() => undefined);
  }

  static async start(
    binary: string,
    count: 1 | 3,
    { quotaBytes = 1024 ** 3 }: { readonly quotaBytes?: number } = {},
  ): Promise<EtcdOfTest> {
    const directory = await mkdtemp(join(tmpdir(), "codeq-etcd-"));
    const ports = await freePortRows(count, 2);
    const members = ports.map((port, at) => ({ name: `s${at}`, address: `${host}:${port + 1}` }));
    const { ca, cert, key } = certificateOf("server");
    const tls = {
      caFile: join(directory, "ca.pem"),
      certFile: join(directory, "cert.pem"),
      keyFile: join(directory, "key.pem"),
    };
    await writeFile(tls.caFile, ca);
    await writeFile(tls.certFile, cert);
    await writeFile(tls.keyFile, key, { mode: 0o600 });
    for (const at of ports.keys()) await mkdir(join(directory, `store-${at}`));
    const servers = new EtcdOfTest({
      binary,
      directory,
      urls: ports.map((port) => `https://${host}:${port}`),
      arguments: ports.map((port, at) =>
        etcdArguments({
          name: `s${at}`,
          directory: join(directory, `store-${at}`),
          clientAddress: `${host}:${port}`,
          peerAddress: `${host}:${port + 1}`,
          members,
          isJoining: false,
          quotaBytes,
          tls,
          heartbeatMs: 100,
          electionMs: 1000,
        }),
      ),
    });
    await Promise.all(members.map((_, at) => servers.startServer(at)));
    return servers;
  }

  /** Resolves when the process runs; clients wait for its answers. */
  async startServer(at: number): Promise<void> {
    const child = spawn(this.#binary, this.#arguments[at] as string[], { stdio: "ignore" });
    this.#processes[at] = child;
    await once(child, "spawn");
  }

  /** The first of the URLs is the one that the client prefers. */
  connect(node = "test", urls: readonly string[] = this.urls): EtcdServers {
    return new EtcdServers(this.options(node, urls));
  }

  options(node = "test", urls: readonly string[] = this.urls): EtcdServersOptions {
    return { urls, node, clock: systemClock, tls: certificateOf(node) };
  }

  /** Of a node that uses these servers. */
  get settings(): Readonly<Record<string, string>> {
    return {
      CODEQ_CLUSTER_TLS_CERT_FILE: join(this.#directory, "cert.pem"),
      CODEQ_CLUSTER_TLS_KEY_FILE: join(this.#directory, "key.pem"),
      CODEQ_CLUSTER_TLS_CA_FILE: join(this.#directory, "ca.pem"),
    };
  }

  /** Stops the process without ending it; `SIGCONT` lets it go on. */
  signal(at: number, signal: NodeJS.Signals): void {
    this.#processes[at]?.kill(signal);
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

/** As an operator would with the command line of etcd. */
export async function removeLog(options: EtcdServersOptions, name: string): Promise<void> {
  const client = new EtcdClient(options);
  const { meta, head, records, recordsEnd } = keysOf("codeq/", name);
  const success = [deleteOp(meta, ""), deleteOp(head, ""), deleteOp(records, recordsEnd)];
  try {
    await answered(
      client.ask(etcdMethods.txn, { compare: [], success, failure: [] }, { timeoutMs: 2000 }),
    );
  } finally {
    client.close();
  }
}

export function certificateOf(node: string, of: string = secret): ClusterCertificate {
  return clusterCertificate([of], node, [host]);
}

/** Servers that choose a leader do not answer for a while. */
export async function untilAnswered<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if ((error as { code?: string }).code !== "storage_failed") throw error;
    }
    await new Promise<void>((resolve) => void systemClock.after(20, resolve));
  }
}
