/** Log servers whose disks are full, as their nodes look after them. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { EtcdServers } from "../../packages/engine/src/log/replicated/etcd/etcd-servers.ts";
import { EtcdProcess } from "../../packages/server/src/cluster/etcd/etcd-process.ts";
import { systemClock as clock } from "../../packages/server/src/core/clock.ts";
import { createLogger } from "../../packages/server/src/telemetry/logger.ts";
import { etcdBinary } from "./etcd-binary.ts";
import { freePortRows } from "./free-ports.ts";

const binary = etcdBinary();
const skip = "missing" in binary ? binary.missing : false;
const names = ["a", "b", "c"];
const minFreeBytes = 64 * 1024 * 1024;
const patienceMs = 60_000;

class ThreeDisks implements AsyncDisposable {
  readonly servers: EtcdServers;
  readonly free: Map<string, number> = new Map(names.map((name) => [name, minFreeBytes]));
  readonly processes: Map<string, EtcdProcess> = new Map();
  readonly #connected: EtcdServers[] = [];
  readonly #directory: string;
  readonly #ports: readonly number[];

  private constructor(directory: string, ports: readonly number[]) {
    this.#directory = directory;
    this.#ports = ports;
    this.servers = this.#connect(ports);
  }

  static async make(): Promise<ThreeDisks> {
    const directory = await mkdtemp(join(tmpdir(), "codeq-disks-"));
    return new ThreeDisks(directory, await freePortRows(names.length, 2));
  }

  start(name: string): void {
    const port = this.#ports[names.indexOf(name)] as number;
    const others = this.#ports.filter((each) => each !== port);
    this.processes.set(
      name,
      new EtcdProcess({
        program: "path" in binary ? binary.path : "",
        members: names.map((each, at) => ({ name: each, address: `127.0.0.1:${this.#peer(at)}` })),
        otherUrls: others.map(urlOf),
        servers: this.#connect([port, ...others]),
        whyNotBegin: () => (name === "a" ? undefined : "a begins"),
        freeBytes: () => Promise.resolve(this.free.get(name) ?? 0),
        minFreeBytes,
        clock,
        logger: createLogger({ level: "error", format: "text", write: () => {}, nowMs: () => 0 }),
        config: {
          name,
          directory: join(this.#directory, name),
          clientAddress: `127.0.0.1:${port}`,
          peerAddress: `127.0.0.1:${port + 1}`,
          quotaBytes: 1024 ** 3,
          tls: undefined,
          heartbeatMs: 100,
          electionMs: 1000,
        },
      }),
    );
  }

  /** Resolves with the answer when there is one. */
  async until<T>(look: () => Promise<T | undefined>): Promise<T> {
    const endMs = clock.monotonicMs() + patienceMs;
    for (;;) {
      assert.ok(clock.monotonicMs() < endMs, "it takes too long");
      const found = await look().catch(() => undefined);
      if (found !== undefined) return found;
      await new Promise<void>((resolve) => void clock.after(20, resolve));
    }
  }

  async leader(): Promise<string | undefined> {
    const members = await this.servers.members();
    const all = await Promise.all(members.map((member) => this.servers.health(member)));
    return members[all.findIndex((health) => health?.isLeader)]?.name;
  }

  async voters(): Promise<number> {
    return (await this.servers.members()).filter(({ isLearner }) => !isLearner).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.processes.values()].map((each) => each[Symbol.asyncDispose]()));
    await Promise.all(this.#connected.map((each) => each[Symbol.asyncDispose]()));
    await rm(this.#directory, { recursive: true, force: true });
  }

  #peer(at: number): number {
    return (this.#ports[at] as number) + 1;
  }

  #connect(ports: readonly number[]): EtcdServers {
    const servers = new EtcdServers({ urls: ports.map(urlOf), node: "test", clock });
    this.#connected.push(servers);
    return servers;
  }
}

function urlOf(port: number): string {
  return `http://127.0.0.1:${port}`;
}

test("a log server is not started on a full disk, and lets another one lead on a nearly full disk", {
  skip,
}, async () => {
  await using disks = await ThreeDisks.make();
  disks.free.set("c", 0);
  for (const name of names) disks.start(name);
  await disks.until(async () => ((await disks.voters()) >= 2 ? true : undefined));
  assert.match(disks.processes.get("c")?.problem ?? "", /the disk is full .* when there is room/);
  disks.free.set("c", minFreeBytes);
  await disks.until(async () => ((await disks.voters()) === 3 ? true : undefined));
  assert.equal(disks.processes.get("c")?.problem, undefined);
  const leader = await disks.until(() => disks.leader());
  disks.free.set(leader, minFreeBytes - 1);
  const next = await disks.until(async () => {
    const found = await disks.leader();
    return found === leader ? undefined : found;
  });
  assert.notEqual(next, leader);
});
