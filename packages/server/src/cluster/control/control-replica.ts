/**
 * The control log on a node: a copy of its records that follows the log and, while this node leads, the store
 * that writes them. Nodes ask the leader to commit; only the leader writes.
 */
import { type DecodedOp, FaultError, type LeaderLog, type Leading, opKinds } from "@codeq/engine";
import { ControlRecords } from "../../core/control/control-records.ts";
import { textOf } from "../../core/control/local-control.ts";
import { decode, encode } from "../../core/store/codec.ts";
import type { RecordText, Store } from "../../core/store/store.ts";
import { LogReplica, type LogReplicaParts } from "../log-replica.ts";
import type { Caller, Hosting } from "../replicated-shard.ts";
import {
  type CommitRequest,
  type ControlAnswer,
  commitRequest,
  controlAnswer,
} from "./control-messages.ts";

export interface ControlReplicaParts extends LogReplicaParts {
  readonly shards: number;
  readonly openStore: (log: LeaderLog) => Promise<Store>;
  /** Called when any node has written records; possibly several times for one index. */
  readonly onWritten: (writes: readonly RecordText[], index: number) => void;
}

interface Led {
  readonly store: Store;
  /** The highest index of a commit. */
  lastIndex: number;
}

export class ControlReplica extends LogReplica {
  readonly #parts: ControlReplicaParts;
  readonly #records: ControlRecords;
  readonly #calls: Set<Caller> = new Set();
  #led: Led | undefined;
  /** Listeners were notified of records up to this index. */
  #notifiedIndex: number;

  constructor(parts: ControlReplicaParts) {
    const { shards } = parts;
    // Readers see applied records at once.
    super(parts, { shard: 0, kind: { shards }, flushBytes: 0, isHeard: true });
    this.#parts = parts;
    this.#records = ControlRecords.of(parts.kv);
    this.#notifiedIndex = this.follower.storedPosition.index;
  }

  get isLeading(): boolean {
    return this.#led !== undefined;
  }

  /** The store, while this node leads. */
  get store(): Store | undefined {
    return this.#led?.store;
  }

  get notifiedIndex(): number {
    return this.#notifiedIndex;
  }

  get records(): ControlRecords {
    return this.#led?.store.control ?? this.#records;
  }

  scrape(): undefined {
    return undefined;
  }

  /** Opens a channel to the leader. Undefined when this node does not lead. */
  call(caller: Caller): Hosting | undefined {
    if (this.#led === undefined) return undefined;
    this.#calls.add(caller);
    // Sent after `call` has returned to its caller.
    this.#parts.defer(() => this.#say(caller, { kind: "hello" }));
    return {
      take: (message) => void this.#take(caller, decode(commitRequest, message)),
      close: () => void this.#calls.delete(caller),
    };
  }

  async open(log: LeaderLog): Promise<Leading> {
    const store = await this.#parts.openStore(log);
    this.#led = { store, lastIndex: log.lastIndex };
    this.#parts.onChange();
    return {
      settle: () => store.settle(),
      mark: () => store.mark(),
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
      this.#notify(writes.map(textOf), index);
      this.#say(caller, { kind: "kept", number, index });
    } catch (error) {
      if (!(error instanceof FaultError)) throw error;
      const { code, message: why } = error;
      this.#say(caller, { kind: "refused", number, code, why });
    }
  }

  #say(caller: Caller, answer: ControlAnswer): void {
    if (this.#calls.has(caller)) caller.hear(encode(controlAnswer, answer));
  }

  /** A node that led reads some of its own records again, and skips them. */
  applied(ops: Iterable<DecodedOp>, index: number): void {
    if (index <= this.#notifiedIndex) return;
    this.#notify([...ops].map(writtenText), index);
  }

  #notify(writes: readonly RecordText[], index: number): void {
    this.#notifiedIndex = Math.max(this.#notifiedIndex, index);
    this.#parts.onWritten(writes, index);
  }
}

function writtenText({ kind, key, value }: DecodedOp): RecordText {
  const text = value.buffer.toString("utf8", value.start, value.end);
  return { key, text: kind === opKinds.delete ? undefined : text };
}
