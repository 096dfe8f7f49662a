/**
 * What a node has of the control log: a copy of its records that follows the log and, while this node leads,
 * the store that writes them. Nodes ask the leader to commit; nobody else writes.
 */
import {
  type DecodedOp,
  FaultError,
  type Kv,
  type LeaderLog,
  type LeaderName,
  opKinds,
  Replica,
  type ReplicaStatus,
  type ReplicaTiming,
  type SharedLog,
  SnapshotReader,
} from "@codeq/engine";
import type { Clock } from "../clock.ts";
import { ControlRecords } from "../store/control-records.ts";
import { textOf } from "../store/local-control.ts";
import { type RecordText, Store } from "../store/store.ts";
import {
  type CommitRequest,
  type ControlAnswer,
  decodeRequest,
  encodeAnswer,
} from "./control-messages.ts";
import type { Caller, Hosting } from "./replicated-shard.ts";

export interface ControlReplicaParts {
  readonly shared: SharedLog;
  readonly kv: Kv;
  readonly self: LeaderName;
  /** The ids of all nodes. */
  readonly nodes: readonly string[];
  readonly rank: number;
  readonly clock: Clock;
  readonly drawWriter: () => number;
  readonly shards: number;
  readonly defer: (run: () => void) => void;
  readonly openStore: (log: LeaderLog) => Promise<Store>;
  /** The role, or who leads, has changed. */
  readonly onChange: () => void;
  /** Records were written, by whichever node; of one index possibly in several calls. */
  readonly onWritten: (writes: readonly RecordText[], index: number) => void;
  readonly timing?: ReplicaTiming | undefined;
}

interface Led {
  readonly store: Store;
  /** The highest index that anything was committed with. */
  lastIndex: number;
}

export class ControlReplica implements AsyncDisposable {
  readonly #parts: ControlReplicaParts;
  readonly #replica: Replica;
  readonly #records: ControlRecords;
  readonly #calls: Set<Caller> = new Set();
  #led: Led | undefined;
  /** Records up to this index were told. */
  #toldIndex: number;

  constructor(parts: ControlReplicaParts) {
    this.#parts = parts;
    const { shared, kv, self, nodes, rank, clock, drawWriter, defer, timing } = parts;
    this.#records = ControlRecords.of(kv);
    const follower = Store.follow({
      kv,
      identity: shared.logId,
      shards: parts.shards,
      defer,
      // What was applied is there for readers at once.
      flushBytes: 0,
      onApplied: (ops, index) => this.#applied(ops, index),
    });
    this.#toldIndex = follower.storedPlace.index;
    this.#replica = new Replica({
      shared,
      shard: 0,
      self,
      nodes,
      rank,
      clock,
      drawWriter,
      follower,
      open: (log) => this.#open(log),
      onChange: () => parts.onChange(),
      ...(timing === undefined ? {} : { timing }),
    });
  }

  get status(): ReplicaStatus {
    return this.#replica.status;
  }

  get isLeading(): boolean {
    return this.#led !== undefined;
  }

  /** The store, while this node leads. */
  get store(): Store | undefined {
    return this.#led?.store;
  }

  get toldIndex(): number {
    return this.#toldIndex;
  }

  get records(): ControlRecords {
    return this.#led?.store.control ?? this.#records;
  }

  snapshot(): SnapshotReader {
    return new SnapshotReader(this.#parts.kv);
  }

  scrape(): undefined {
    return undefined;
  }

  /** A node begins to talk to the leader. Undefined when this node does not lead. */
  call(caller: Caller): Hosting | undefined {
    if (this.#led === undefined) return undefined;
    this.#calls.add(caller);
    // Not before whoever calls has the answer to its call.
    this.#parts.defer(() => this.#say(caller, { kind: "hello" }));
    return {
      take: (message) => void this.#take(caller, decodeRequest(message)),
      close: () => void this.#calls.delete(caller),
    };
  }

  /** See the replica. */
  end(): boolean {
    return this.#replica.end();
  }

  handOff(to: string | undefined): boolean {
    return this.#replica.handOff(to);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#replica[Symbol.asyncDispose]();
    await this.#parts.kv.close();
  }

  async #open(log: LeaderLog): Promise<AsyncDisposable> {
    const store = await this.#parts.openStore(log);
    this.#led = { store, lastIndex: log.lastIndex };
    this.#parts.onChange();
    return {
      [Symbol.asyncDispose]: async () => {
        this.#led = undefined;
        await store[Symbol.asyncDispose]();
        await new Promise<void>(this.#parts.defer);
        for (const caller of this.#calls) caller.end();
        this.#calls.clear();
      },
    };
  }

  async #take(caller: Caller, request: CommitRequest): Promise<void> {
    const { number, writes, expected } = request;
    const led = this.#led;
    try {
      if (led === undefined) throw new FaultError("not_leader", "this node leads no longer");
      if (!led.store.isUnchanged(expected)) {
        this.#say(caller, { kind: "changed", number, index: led.lastIndex });
        return;
      }
      const { index, done } = led.store.commitRecords(writes);
      led.lastIndex = index;
      await done;
      this.#tell(writes.map(textOf), index);
      this.#say(caller, { kind: "kept", number, index });
    } catch (error) {
      if (!(error instanceof FaultError)) throw error;
      const { code, message: why } = error;
      this.#say(caller, { kind: "refused", number, code, why });
    }
  }

  #say(caller: Caller, answer: ControlAnswer): void {
    if (this.#calls.has(caller)) caller.hear(encodeAnswer(answer));
  }

  /** A node that led reads some of what it wrote again. */
  #applied(ops: Iterable<DecodedOp>, index: number): void {
    if (index <= this.#toldIndex) return;
    this.#tell([...ops].map(writtenText), index);
  }

  #tell(writes: readonly RecordText[], index: number): void {
    this.#toldIndex = Math.max(this.#toldIndex, index);
    this.#parts.onWritten(writes, index);
  }
}

function writtenText({ kind, key, value }: DecodedOp): RecordText {
  const text = value.buffer.toString("utf8", value.start, value.end);
  return { key, text: kind === opKinds.delete ? undefined : text };
}
