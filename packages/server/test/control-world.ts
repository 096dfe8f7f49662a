/** Nodes that share a control log, on a simulated clock. Each can be cut off from the log and from the others. */
import { type LeaderName, MemoryKv } from "@codeq/engine";
// biome-ignore lint/correctness/noUndeclaredDependencies: only tests use it.
import { SimClock, SimRandom } from "@codeq/simulated";
import { MemoryLogServer } from "../../engine/test/memory-shared-log.ts";
import { ClusterControl } from "../src/cluster/control/cluster-control.ts";
import { ControlReplica } from "../src/cluster/control/control-replica.ts";
import { Store } from "../src/core/store/store.ts";
import { ApiKeys } from "../src/edge/access/api-keys/api-keys.ts";
import { Revocations } from "../src/edge/access/token-provider.ts";

const logId = 77;

export class ControlWorld {
  readonly clock: SimClock = new SimClock();
  readonly random: SimRandom;
  readonly log: MemoryLogServer = new MemoryLogServer(logId);
  readonly nodes: ControlNode[] = [];

  constructor(seed = 1, nodes = 3) {
    this.random = new SimRandom(`control/${seed}`);
    const ids = Array.from({ length: nodes }, (_, at) => `node-${at}`);
    for (const at of ids.keys()) this.nodes.push(new ControlNode(this, at, ids));
  }

  async start(): Promise<void> {
    for (const node of this.nodes) await node.start();
  }

  get leader(): ControlNode | undefined {
    return this.nodes.find((node) => node.replica?.isLeading === true && !node.isCutOff);
  }

  /** Lets time pass until something holds. */
  async until(holds: () => boolean): Promise<void> {
    for (let turns = 0; !holds(); turns += 1) {
      if (turns > 2000) throw new Error("it does not happen");
      await this.clock.advance(50);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const node of this.nodes) node.isCutOff = false;
    const ended = Promise.all(this.nodes.map((node) => node.stop()));
    let isOver = false;
    void ended.then(() => {
      isOver = true;
    });
    await this.until(() => isOver);
  }
}

export class ControlNode {
  readonly name: LeaderName;
  readonly revocations: Revocations = new Revocations();
  /** From the log servers and the other nodes. */
  isCutOff = false;
  /** How long an answer of the log servers takes. */
  logDelayMs = 0;
  control!: ClusterControl;
  keys!: ApiKeys;
  replica: ControlReplica | undefined;
  readonly #world: ControlWorld;
  readonly #at: number;
  readonly #ids: readonly string[];
  /** Of its kv. */
  readonly contents: Map<string, Buffer> = new Map();

  constructor(world: ControlWorld, at: number, ids: readonly string[]) {
    this.#world = world;
    this.#at = at;
    this.#ids = ids;
    this.name = { id: ids[at] as string, address: String(at) };
  }

  async start(): Promise<void> {
    const { clock, random } = this.#world;
    this.control = new ClusterControl({
      clock,
      status: () => this.replica?.status ?? { leader: undefined, epoch: 0 },
      dial: (leader, _shard, caller) => {
        const other = this.#world.nodes[Number(leader.address)] as ControlNode;
        const isConnected = (): boolean => !this.isCutOff && !other.isCutOff;
        if (!isConnected()) return undefined;
        const hosting = other.replica?.call({
          hear: (message) => isConnected() && caller.hear(message),
          end: () => caller.end(),
        });
        if (hosting === undefined) return undefined;
        return { ...hosting, take: (message) => isConnected() && hosting.take(message) };
      },
    });
    const { control, revocations } = this;
    const randomBytes = (into: Uint8Array): void => random.bytes(into);
    this.keys = await ApiKeys.open({ store: control, clock, revocations, randomBytes });
    this.replica = this.#openReplica();
    control.use(this.replica);
  }

  async stop(): Promise<void> {
    const { replica } = this;
    this.replica = undefined;
    await this.control[Symbol.asyncDispose]();
    await replica?.[Symbol.asyncDispose]();
  }

  #openReplica(): ControlReplica {
    const { clock, random, log } = this.#world;
    const kv = new MemoryKv({ contents: this.contents });
    const shared = log.connect(async (there) => {
      if (this.logDelayMs > 0) {
        await new Promise<void>((resolve) => void clock.after(this.logDelayMs, resolve));
      }
      if (this.isCutOff) throw new Error("cut off");
      return there();
    });
    return new ControlReplica({
      shared,
      kv,
      self: this.name,
      nodes: this.#ids,
      rank: this.#at,
      clock,
      drawWriter: () => 1 + random.int(2 ** 47),
      shards: 1,
      defer: (run) => queueMicrotask(run),
      onChange: () => queueMicrotask(() => this.control.look()),
      onWritten: (writes) => this.control.written(writes),
      isFull: () => Promise.resolve(false),
      openStore: (leaderLog) =>
        Store.open({
          shards: 1,
          log: leaderLog,
          kv,
          isKvLent: true,
          storeId: logId,
          observer: { grouped: () => {}, flushed: () => {}, stateChanged: () => {} },
          freeBytes: () => Promise.resolve(Number.POSITIVE_INFINITY),
          clock,
          defer: (run) => queueMicrotask(run),
          minFreeBytes: 0,
          flushBytes: 4000,
          syncIntervalMs: undefined,
        }),
    });
  }
}
