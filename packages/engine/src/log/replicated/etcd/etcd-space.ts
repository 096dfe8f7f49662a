/**
 * How much room etcd has for records. etcd refuses the writes of all clients when it has used up its quota, and
 * deleting takes room, too; so the logs together take half of the quota. Small records, as those that keep a
 * leader leading, are let through a little longer: a leader has to trim the logs.
 */
import type { LogRoom } from "../shared-log.ts";
import { type EtcdClient, etcdMethods } from "./etcd-client.ts";

/** The quota of an etcd that reports none. */
const quotaDefault = 2 * 1024 ** 3;
const logsShare = 1 / 2;
const smallShare = 5 / 8;
const smallBytes = 1024;
/** The space is asked for again after this part of it was written. */
const askedShare = 1 / 64;
/** A write takes room in pages, for its key and for the head. */
const overheadBytes = 512;
const statusTimeoutMs = 1000;

export interface SpaceStatus extends LogRoom {
  /** etcd has raised its alarm and refuses every write. */
  readonly isRefusing: boolean;
  readonly quotaBytes: number;
  readonly usedBytes: number;
}

export class EtcdSpace {
  readonly #client: EtcdClient;
  #known: SpaceStatus | undefined;
  #writtenBytes = 0;
  #isAsking = false;

  constructor(client: EtcdClient) {
    this.#client = client;
  }

  /** Why a record of this size is not taken now; undefined when it is. */
  refusal(bytes: number): string | undefined {
    const known = this.#known;
    const writtenBytes = this.#writtenBytes + bytes + overheadBytes;
    if (known === undefined || writtenBytes > known.bytesMax * askedShare) this.#askQuietly();
    if (known !== undefined) {
      const usedBytes = known.usedBytes + writtenBytes;
      const share = bytes <= smallBytes ? smallShare : logsShare;
      if (usedBytes >= known.quotaBytes * share) {
        return `the log servers hold ${usedBytes} of ${known.bytesMax} bytes`;
      }
    }
    this.#writtenBytes = writtenBytes;
    return undefined;
  }

  async ask(): Promise<SpaceStatus> {
    const before = this.#writtenBytes;
    const status = await this.#client.ask(etcdMethods.status, undefined, statusTimeoutMs);
    const quotaBytes = Number(status.dbSizeQuota) || quotaDefault;
    const usedBytes = Number(status.dbSizeInUse);
    const bytesMax = Math.floor(quotaBytes * logsShare);
    const freeBytes = Math.max(0, bytesMax - usedBytes);
    const isRefusing = status.errors.some((text) => text.includes("NOSPACE"));
    this.#known = { quotaBytes, usedBytes, bytesMax, freeBytes, isRefusing };
    this.#writtenBytes -= before;
    return this.#known;
  }

  #askQuietly(): void {
    if (this.#isAsking) return;
    this.#isAsking = true;
    this.ask()
      .catch(() => {
        // Asked again with the next record.
      })
      .finally(() => {
        this.#isAsking = false;
      });
  }
}
