/**
 * How much room etcd has for records. etcd refuses the writes of all clients when it has used up its quota, and
 * deleting takes room, too; so the logs together take half of the quota. Small records, as those that keep a
 * leader leading, are let through a little longer: a leader has to trim the logs.
 *
 * etcd counts the size of its file, in which there may be much free room, and refuses writes until a client ends its
 * alarm. A node that is refused, or that has removed records, looks whether there is room again, and then ends the alarm.
 */
import * as messages from "@codeq/protocol/etcd";
import type { EngineClock } from "../../../engine-options.ts";
import type { LogSpace } from "../shared-log.ts";
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
/** The alarm is ended only when less than this part of the quota is used. */
const calmShare = 4 / 5;
/** Members copy their files; meanwhile they do not answer. */
const defragmentTimeoutMs = 60_000;
const alarmTimeoutMs = 2000;
/** The shortest time between two defragmentations. */
const calmGapMs = 10_000;

interface SpaceStatus extends LogSpace {
  readonly quotaBytes: number;
  readonly usedBytes: number;
  /** etcd has raised its alarm and refuses every write. */
  readonly isRefusing: boolean;
}

export class EtcdSpace {
  readonly #client: EtcdClient;
  readonly #clock: EngineClock;
  #known: SpaceStatus | undefined;
  #writtenBytes = 0;
  #isAsking = false;
  #calmMs = Number.NEGATIVE_INFINITY;
  /** Space was freed that etcd may not know of. */
  #isCompacted = false;

  constructor(client: EtcdClient, clock: EngineClock) {
    this.#client = client;
    this.#clock = clock;
  }

  /** Why a record of this size is not taken now; undefined when it is. */
  refusal(bytes: number): string | undefined {
    const known = this.#known;
    const writtenBytes = this.#writtenBytes + bytes + overheadBytes;
    if (known === undefined || writtenBytes > known.bytesMax * askedShare) this.look();
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

  async ask(): Promise<LogSpace> {
    const known = await this.#ask();
    if (known.isRefusing && (isCalm(known) || this.#isCompacted)) this.#calm();
    return known;
  }

  async #ask(): Promise<SpaceStatus> {
    const before = this.#writtenBytes;
    const status = await this.#client.ask(etcdMethods.status, undefined, {
      timeoutMs: statusTimeoutMs,
    });
    const quotaBytes = Number(status.dbSizeQuota) || quotaDefault;
    const usedBytes = Number(status.dbSizeInUse);
    const bytesMax = Math.floor(quotaBytes * logsShare);
    const freeBytes = Math.max(0, bytesMax - usedBytes);
    const isRefusing = status.errors.some((text) => text.includes("NOSPACE"));
    this.#known = { quotaBytes, usedBytes, bytesMax, freeBytes, isRefusing };
    this.#writtenBytes -= before;
    return this.#known;
  }

  /** The history of etcd was given up. */
  compacted(): void {
    this.#isCompacted = true;
    this.look();
  }

  /** Asks for the space in the background. */
  look(): void {
    if (this.#isAsking) return;
    this.#isAsking = true;
    this.ask()
      .catch(() => {
        // The request is repeated with the next record.
      })
      .finally(() => {
        this.#isAsking = false;
      });
  }

  #calm(): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#calmMs < calmGapMs) return;
    this.#calmMs = nowMs;
    this.#endAlarm().catch(() => {
      // The next question about the space repeats it.
    });
  }

  /**
   * Gives the free pages of every member back to its disk, and ends the alarm. Until then, etcd counts pages as used
   * that became free in its last write.
   */
  async #endAlarm(): Promise<void> {
    this.#isCompacted = false;
    const defragment = { method: etcdMethods.defragment, request: undefined };
    for (const url of this.#client.urls) {
      const call = { ...defragment, timeoutMs: defragmentTimeoutMs };
      await this.#client.callAt(url, call).catch(() => {
        // A member that is down raises the alarm again if its own file is too large.
      });
    }
    if (!isCalm(await this.#ask())) return;
    const alarm = messages.alarmRequestAlarm.NOSPACE;
    const { GET, DEACTIVATE } = messages.alarmRequestAction;
    const { alarms } = await this.#alarm({ action: GET, memberId: 0, alarm });
    for (const { memberId } of alarms) await this.#alarm({ action: DEACTIVATE, memberId, alarm });
  }

  #alarm(request: messages.AlarmRequest): Promise<messages.AlarmResponse> {
    return this.#client.ask(etcdMethods.alarm, request, { timeoutMs: alarmTimeoutMs });
  }
}

function isCalm({ usedBytes, quotaBytes }: SpaceStatus): boolean {
  return usedBytes < quotaBytes * calmShare;
}
