/**
 * One node's part in a shared log: it follows the log, and leads when no other node does.
 *
 * States, and what leads out of each:
 * - following: reads the log and applies it. After a time without any record it becomes a candidate.
 * - candidate: asks for the slot behind the last one it has read, to put its takeover there. The node that gets
 *   the slot has read everything and fences all earlier leaders: no lock and no clock is needed. A node that
 *   reads its own takeover opens; a node that reads another record follows.
 * - opening: memory is rebuilt on top of what was applied. Leads to leading, or back to following.
 * - leading: its engine writes. It steps down when it is deposed, when it cannot go on, and when it is
 *   asked to.
 * - steppingDown: the engine is closed, and then the log followed from where the kv is.
 * - behind: the log was trimmed beyond what this node has, so the node needs a copy of another node; final.
 * - ended: the log has its last record, and this node has everything that was in it; final.
 * - diverged: the log is not the one that was read; final. All applied records are on the disk then, and
 *   the message says what to do.
 * - closed: final.
 */
import type { EngineClock } from "../../engine-options.ts";
import { FaultError } from "../../fault.ts";
import type { Follower } from "../../follower.ts";
import { recordTypes } from "../log.ts";
import { LeaderLog } from "./leader-log.ts";
import { NodeNotes } from "./node-notes.ts";
import { type SharedLog, sharedRecordTypes } from "./shared-log.ts";
import { type LogPosition, type Meaning, quietSlots, readSlot, stamp } from "./slot-rules.ts";

/** The leader, as its takeover names it. */
export interface LeaderName {
  readonly id: string;
  /** The address at which other nodes reach it. */
  readonly address: string;
}

export type ReplicaRole =
  | "following"
  | "candidate"
  | "opening"
  | "leading"
  | "steppingDown"
  | "behind"
  | "ended"
  | "diverged"
  | "closed";

export interface ReplicaStatus {
  readonly role: ReplicaRole;
  /** Undefined until the log names the leader, and between two leaders. */
  readonly leader: LeaderName | undefined;
  readonly epoch: number;
  /** The last slot that was read. */
  readonly slot: number;
  /** How many records of changes were applied. */
  readonly index: number;
  /** Milliseconds since the last record of the leader. */
  readonly silentMs: number;
  /** Milliseconds since this node certainly had read the whole log; infinite before it ever had. */
  readonly ageMs: number;
  /** Why it does not follow. */
  readonly problem: string | undefined;
}

export interface ReplicaTiming {
  /** After this time without a record, the leader is considered gone. */
  readonly patienceMs: number;
  /**
   * A record that comes after a longer silence may have been written before that: log servers keep the last record of
   * a leader that is gone when they have elected a leader of their own.
   */
  readonly lateMs: number;
  /** How much longer a candidate waits, for each rank that it is lower. */
  readonly rankStepMs: number;
  /** How long a log has to answer again before a candidate asks it: its leader may just be about to go on. */
  readonly graceMs: number;
  readonly pollMs: number;
  readonly leaseMs: number;
  /** After this time without an answer of the log, a leader lets its callers go. */
  readonly stuckMs: number;
  readonly beatMs: number;
  /** How often a node reports how far its kv is durable, and the leader trims the log. */
  readonly checkpointMs: number;
  /**
   * At least this many slots stay in the log beyond what the nodes have. After this many slots that changed nothing,
   * the nodes make their stores durable, so that a log without work is trimmed, too.
   */
  readonly slotsKept: number;
}

/** The times follow from how long the log servers take to notice that their own leader is gone. */
export function replicaTimingOf(electionMs: number): ReplicaTiming {
  return {
    patienceMs: electionMs * 1.5,
    lateMs: electionMs,
    rankStepMs: electionMs * 0.1,
    graceMs: electionMs * 0.25,
    pollMs: electionMs * 0.15,
    leaseMs: electionMs * 1.2,
    stuckMs: electionMs * 1.8,
    beatMs: electionMs * 0.3,
    checkpointMs: 10_000,
    slotsKept: 1000,
  };
}

export const replicaTiming: ReplicaTiming = replicaTimingOf(1000);

/** The part of a node that leads on a log. */
export interface Leading extends AsyncDisposable {
  /** Makes everything that was committed durable in the kv; does not end while the log does not answer. */
  settle(): Promise<void>;
  /** Writes a record that changes nothing, and makes the kv durable up to this record. */
  mark(): Promise<void>;
}

export interface ReplicaParts {
  readonly shared: SharedLog;
  readonly shard: number;
  readonly self: LeaderName;
  /**
   * The ids of all nodes, the one that should lead first. The log is trimmed when a majority of them has what is
   * removed.
   */
  readonly nodes: readonly string[];
  /** 0 for the node that should lead. */
  readonly rank: number;
  readonly clock: EngineClock;
  /** Draws a whole number above zero that no other takeover has. */
  readonly drawWriter: () => number;
  readonly follower: Follower;
  /** Opens what leads on this log; it is closed when this node leads no longer. */
  readonly open: (log: LeaderLog) => Promise<Leading>;
  readonly onChange: () => void;
  /** Whether the disk of this node has less room than it should; asked with every checkpoint. */
  readonly isFull: () => Promise<boolean>;
  readonly timing?: ReplicaTiming;
}

/** After an engine could not be opened, the node waits so that another node can try. */
const afterFailureMs = 5000;
/** How long a node that abandons a log waits for changes that the log may still take. */
const abandonMs = 2000;
/** How long a node that ends waits for a log that does not answer. */
const stopMs = 3000;
/** A follower of a busy log reads it this often. */
const readGapMs = 10;
/** The steps between the ranks after a hand-over, as a part of those after a silence. */
const handOffStep = 0.2;
/** A leader that took over in an emergency hands back after this many checkpoints at which the first node was well. */
const calmCheckpoints = 6;
const notHandedOver = "this node has ended, and the log servers did not answer";
const abandoned = "the log of this shard is being repaired";
/** How many checkpoints a note of another node stays valid. */
const notesKept = 3.5;

export class Replica implements AsyncDisposable {
  readonly #parts: ReplicaParts;
  readonly #timing: ReplicaTiming;
  readonly #ended: Promise<void>;
  #role: ReplicaRole = "following";
  #position: LogPosition;
  #leader: LeaderName | undefined;
  /** When the leader was last known to live. */
  #heardMs: number;
  /** When the last record was read. */
  #recordMs: number;
  /** When the log last did not answer, or answered late. */
  #deafMs = Number.NEGATIVE_INFINITY;
  /** When the log was last read to its end and had a record of its leader. */
  #currentMs = Number.NEGATIVE_INFINITY;
  #problem: string | undefined;
  /** The takeover of this node, while it may still get its slot. */
  #candidacy:
    | { readonly slot: number; readonly writer: number; readonly bytes: Buffer }
    | undefined;
  #isStopping = false;
  /** The log is considered lost. */
  #isAbandoned = false;
  #wake: () => void = () => {};
  /** When it last began to read the log. */
  #readMs = Number.NEGATIVE_INFINITY;
  /** There are records that came after that. */
  #hasNews = false;
  #leaderLog: LeaderLog | undefined;
  #leading: Leading | undefined;
  /** The position of the last record that this node, as the leader, wrote only to have the log trimmed. */
  #marked: LogPosition | undefined;
  /** There was a checkpoint since this node last checked whether to make its kv durable. */
  #isDue = false;
  readonly #notes: NodeNotes;
  #trimmedTo = 0;
  #fullSinceMs: number | undefined;
  #cancelCheckpoint: () => void = () => {};
  #cancelGiveUp: () => void = () => {};
  #stopLeading: (() => void) | undefined;
  /** The node that should lead next. */
  #handTo: string | undefined;
  /** Another node has handed over to this one by name: an operator wants it to lead. */
  #isWanted = false;
  /** At how many checkpoints in a row the node that should lead instead was well. */
  #calm = 0;
  /** The last slot of the log at the checkpoint before. */
  #readTo = 0;
  /** The epoch that this node has handed over: it leaves the next one to the others. */
  #handedEpoch = 0;
  /** The log should end, without a next leader. */
  #isEnding = false;
  /** The position of the last record of the log, once it was read. Nothing is led behind it. */
  #endPosition: LogPosition | undefined;

  constructor(parts: ReplicaParts) {
    this.#parts = parts;
    this.#timing = parts.timing ?? replicaTiming;
    this.#position = parts.follower.storedPosition;
    this.#notes = new NodeNotes({
      self: parts.self.id,
      nodes: parts.nodes,
      clock: parts.clock,
      instance: parts.drawWriter(),
      keptMs: this.#timing.checkpointMs * notesKept,
    });
    this.#heardMs = parts.clock.monotonicMs();
    this.#recordMs = this.#heardMs;
    parts.shared.onNotice = (text) => this.#heard(text);
    this.#planCheckpoint();
    this.#ended = this.#run();
  }

  get status(): ReplicaStatus {
    const { slot, epoch, index } = this.#leaderLog?.position ?? this.#position;
    const silentMs = this.#parts.clock.monotonicMs() - this.#heardMs;
    return {
      role: this.#role,
      leader: this.#leader,
      epoch,
      slot,
      index,
      silentMs: this.#leaderLog === undefined ? Math.max(0, silentMs) : 0,
      ageMs: this.#parts.clock.monotonicMs() - this.#knownMs,
      problem:
        this.#leaderLog === undefined
          ? this.#problem
          : (this.#leaderLog.problem ?? this.#notes.problem),
    };
  }

  /** Hands over to the given node, or to the next one; false when this node does not lead, or not yet. */
  handOff(to?: string): boolean {
    if (this.#stopLeading === undefined) return false;
    this.#handTo = to;
    this.#stopLeading();
    return true;
  }

  /** Writes the last record of the log, if this node leads; false when it does not, or not yet. */
  end(): boolean {
    if (this.#stopLeading === undefined) return false;
    this.#isEnding = true;
    this.#stopLeading();
    return true;
  }

  /** Hands over what it leads, and ends. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopping = true;
    this.#cancelCheckpoint();
    this.#stopLeading?.();
    this.#wake();
    this.#planGiveUp();
    await this.#ended;
    this.#cancelGiveUp();
    await this.#parts.shared.close();
  }

  /** A log that does not answer must not keep this node from ending; appends under way are then unknown. */
  #planGiveUp(): void {
    this.#cancelGiveUp = this.#parts.clock.after(stopMs, () => {
      if (this.#leaderLog?.isSure === false) this.#leaderLog.giveUp(notHandedOver);
      this.#planGiveUp();
    });
  }

  /** Ends without the log, which may be lost, and makes everything that this node has durable. */
  async abandon(): Promise<void> {
    this.#isAbandoned = true;
    // Closing it would read the log and wait for answers.
    if (this.#role === "opening") this.#leaderLog?.giveUp(abandoned);
    await this[Symbol.asyncDispose]();
    await this.#parts.follower.secure();
  }

  async #run(): Promise<void> {
    while (!this.#isStopping) {
      try {
        await this.#drain();
        this.#report(this.#notes.problem);
        await this.#secureWhenDue();
        if (this.#endPosition !== undefined) {
          await this.#parts.follower.end(this.#endPosition);
          this.#finish();
          return;
        }
        if (this.#hasTakenOver) await this.#lead();
        else if (this.#isSilent && this.#notes.clockProblem === undefined) await this.#campaign();
        else await this.#pause(this.#restMs);
      } catch (error) {
        if (!(error instanceof FaultError)) throw error;
        if (await this.#isOver(error)) return;
        // A log that does not answer says nothing about its leader.
        this.#deafMs = this.#parts.clock.monotonicMs();
        this.#become("following");
        this.#report(error.message);
        await this.#pause(this.#timing.pollMs);
      }
    }
    await this.#parts.follower.secure().catch(() => {
      // The next start reads the log again, or copies another node if the log was trimmed by then.
    });
    this.#become("closed");
  }

  /** Whether this node cannot continue by itself; its role says why. */
  async #isOver({ code, message }: FaultError): Promise<boolean> {
    if (code === "corrupt" || code === "format") await this.#diverge(message);
    else if (code === "behind") {
      this.#problem = message;
      this.#become("behind");
    } else return false;
    return true;
  }

  /** Records that change nothing reach no kv; without this, a log of heartbeats would never be trimmed. */
  async #secureWhenDue(): Promise<void> {
    const { follower } = this.#parts;
    const isDue = this.#isDue && follower.quietSlots > this.#timing.slotsKept;
    this.#isDue = false;
    if (isDue) await follower.secure();
  }

  /** Reads and applies everything that the log has. */
  async #drain(): Promise<void> {
    const { shared, clock } = this.#parts;
    const startedMs = clock.monotonicMs();
    this.#readMs = startedMs;
    this.#hasNews = false;
    let isLed = false;
    for (;;) {
      const records = await shared.read(this.#position.slot + 1);
      for (const bytes of records) {
        const { meaning, position } = readSlot(this.#position, bytes);
        if (meaning.kind === "diverged") throw new FaultError("corrupt", meaning.why);
        if (meaning.kind === "live") {
          isLed = true;
          await this.#follow(meaning, position);
        }
        this.#position = position;
      }
      // Later records are notified.
      if (records.length === 0 || !shared.hasMore(this.#position.slot)) break;
    }
    if (isLed) this.#currentMs = startedMs;
  }

  async #follow(
    { header, body }: Extract<Meaning, { kind: "live" }>,
    position: LogPosition,
  ): Promise<void> {
    const { follower } = this.#parts;
    this.#noteRecord(header.type);
    if (header.type === recordTypes.batches) {
      await follower.apply({ body, opCount: header.opCount }, position);
      return;
    }
    // Set first: listeners that are notified of the new leader read its epoch here.
    this.#position = position;
    if (header.type === sharedRecordTypes.handoff) {
      this.#isWanted = body.toString() === this.#parts.self.id;
      this.#know(undefined);
      if (header.epoch !== this.#handedEpoch) this.#heardMs -= this.#spared(body.toString());
    } else if (header.type === sharedRecordTypes.end) {
      this.#know(undefined);
      this.#endPosition = position;
    } else this.#know(JSON.parse(body.toString()) as LeaderName);
  }

  /** A leader writes a record when the one before is kept, so two records in time show that it lives. */
  #noteRecord(type: number): void {
    const nowMs = this.#parts.clock.monotonicMs();
    const isOfLeader = type === recordTypes.batches || type === sharedRecordTypes.heartbeat;
    if (isOfLeader && nowMs - this.#recordMs > this.#timing.lateMs) this.#deafMs = nowMs;
    else this.#heardMs = nowMs;
    this.#recordMs = nowMs;
  }

  /** How much less a node waits after a hand-over to the named node. */
  #spared(to: string): number {
    // With no named node, the ranks keep the nodes from asking for the next slot at the same time. The first of them
    // is often the one that hands over, so the steps are short.
    if (to === "") return this.#timing.patienceMs + this.#rankMs * (1 - handOffStep);
    return to === this.#parts.self.id ? this.#patienceMs : 0;
  }

  get #hasTakenOver(): boolean {
    return this.#candidacy !== undefined && this.#position.writer === this.#candidacy.writer;
  }

  #know(leader: LeaderName | undefined): void {
    if (leader?.id === this.#leader?.id && leader?.address === this.#leader?.address) return;
    this.#leader = leader;
    this.#parts.onChange();
  }

  get #knownMs(): number {
    return Math.max(this.#currentMs, this.#leaderLog?.keptMs ?? Number.NEGATIVE_INFINITY);
  }

  get #patienceMs(): number {
    return this.#timing.patienceMs + this.#rankMs;
  }

  get #rankMs(): number {
    return this.#parts.rank * this.#timing.rankStepMs;
  }

  get #isSilent(): boolean {
    return this.#untilSilentMs === 0;
  }

  /** How long a node that has read everything rests before it looks again, also without news. */
  get #restMs(): number {
    if (this.#hasNews) return this.#gapMs;
    return Math.min(this.#untilSilentMs || Number.POSITIVE_INFINITY, this.#timing.pollMs);
  }

  /** Records that come one after the other are read together. */
  get #gapMs(): number {
    return Math.max(0, this.#readMs + readGapMs - this.#parts.clock.monotonicMs());
  }

  /** How long it takes until this node stops waiting for the leader, if it hears nothing. */
  get #untilSilentMs(): number {
    const graceMs = this.#timing.graceMs + this.#rankMs;
    const silentMs = Math.max(this.#heardMs + this.#patienceMs, this.#deafMs + graceMs);
    return Math.max(0, silentMs - this.#parts.clock.monotonicMs());
  }

  async #campaign(): Promise<void> {
    const { shared, shard, self, clock } = this.#parts;
    this.#become("candidate");
    const slot = this.#position.slot + 1;
    if (this.#candidacy?.slot !== slot) {
      const writer = this.#parts.drawWriter();
      const bytes = stamp(
        {
          type: sharedRecordTypes.takeover,
          shard,
          epoch: this.#position.epoch + 1,
          writer,
          timeMs: clock.nowMs(),
          opCount: 0,
          body: Buffer.from(JSON.stringify(self)),
        },
        this.#position,
      );
      this.#candidacy = { slot, writer, bytes };
    }
    const outcome = await shared.append(this.#candidacy.bytes, slot);
    if (outcome.kind === "kept") shared.notify();
    else this.#become("following");
    if (outcome.kind === "lost") throw new FaultError("corrupt", outcome.why);
    if (outcome.kind === "full") {
      // No leader may be left that could trim the log.
      await this.#parts.follower.secure();
      await this.#trim(0);
      throw new FaultError("storage_failed", `the log is full: ${outcome.why}`);
    }
    // A log that does not answer says nothing about its leader.
    if (outcome.kind === "unknown") this.#deafMs = clock.monotonicMs();
    // The log shows which node has the slot. A server that is behind may not have that record yet.
    if (outcome.kind !== "kept") await this.#pause(this.#timing.pollMs);
  }

  async #lead(): Promise<void> {
    const { shared, shard, clock, follower, self } = this.#parts;
    const { leaseMs, stuckMs, beatMs } = this.#timing;
    this.#candidacy = undefined;
    this.#calm = 0;
    this.#handTo = undefined;
    this.#isEnding = false;
    this.#become("opening");
    const position = this.#position;
    const beat = Buffer.from(JSON.stringify(self));
    const log = new LeaderLog({ shared, position, shard, clock, leaseMs, stuckMs, beatMs, beat });
    this.#leaderLog = log;
    const stopped = new Promise<"stopped">((resolve) => {
      this.#stopLeading = () => resolve("stopped");
      if (this.#isStopping) resolve("stopped");
    });
    try {
      await follower.settle();
      const led = await this.#parts.open(log);
      this.#marked = follower.durablePosition;
      this.#leading = led;
      this.#become("leading");
      // Callers wait while this node steps down, so its kv takes most of the changes before that.
      const isReady = stopped.then(async (asked) => {
        if (!this.#isAbandoned) await led.settle().catch(() => {});
        return asked;
      });
      const why = await Promise.race([log.lost, isReady]);
      this.#leading = undefined;
      this.#become("steppingDown");
      if (this.#isAbandoned) await this.#giveUp(log, led);
      await led[Symbol.asyncDispose]();
      if (why === "diverged")
        throw new FaultError("corrupt", "the log is not as this node wrote it");
      this.#handedEpoch = position.epoch;
      if (why === "stopped") await (this.#isEnding ? log.end() : log.handOff(this.#handTo));
    } catch (error) {
      if (!(error instanceof FaultError)) throw error;
      log.giveUp(error.message);
      if (error.code === "corrupt" || error.code === "format") throw error;
      this.#problem = error.message;
      if (error.code !== "not_leader") await this.#pause(afterFailureMs);
    } finally {
      await log.close();
      this.#leaderLog = undefined;
      this.#stopLeading = undefined;
      this.#heardMs = clock.monotonicMs();
      this.#recordMs = this.#heardMs;
      if (this.#leader?.id === self.id) this.#know(undefined);
      this.#position = follower.startOver();
      this.#become("following");
    }
  }

  async #giveUp(log: LeaderLog, led: Leading): Promise<void> {
    const settled = led.settle().catch(() => {
      // Another node may have what the kv does not have.
    });
    const timeout = new Promise<void>((resolve) => {
      void this.#parts.clock.after(abandonMs, resolve);
    });
    await Promise.race([settled, timeout]);
    log.giveUp(abandoned);
  }

  /** Another node has written records, or sent a note. */
  #heard(text: string): void {
    if (text === "") {
      if (this.#hasNews) return;
      this.#hasNews = true;
      void this.#parts.clock.after(this.#gapMs, () => this.#wake());
      return;
    }
    this.#notes.read(text);
    // A leader with a wrong clock would write wrong times: hand over to another node.
    if (this.#notes.clockProblem !== undefined) this.#stopLeading?.();
  }

  #planCheckpoint(): void {
    this.#cancelCheckpoint = this.#parts.clock.after(this.#timing.checkpointMs, () => {
      void this.#checkpoint().finally(() => {
        if (!this.#isStopping) this.#planCheckpoint();
      });
    });
  }

  /** Sends the note of this node; the leader trims what a majority has. */
  async #checkpoint(): Promise<void> {
    const { shared } = this.#parts;
    this.#isDue = true;
    const isAway = ["diverged", "behind", "ended"].includes(this.#role);
    if (isAway || this.#isStopping) return;
    const isFull = await this.#parts.isFull().catch(() => false);
    const read = this.status.slot;
    shared.notify(this.#notes.write({ slot: this.#durableSlot, read, isFull }));
    if (this.#role !== "leading") return;
    this.#fullSinceMs = isFull ? (this.#fullSinceMs ?? this.#parts.clock.monotonicMs()) : undefined;
    // Earlier notes may be out of date: disks often fill up together.
    const roomy =
      this.#fullSinceMs === undefined ? undefined : this.#notes.nodeWithSpace(this.#fullSinceMs);
    if (roomy !== undefined) {
      this.handOff(roomy);
      return;
    }
    if (this.#isDueToHandBack(read)) {
      this.handOff(this.#parts.nodes[0]);
      return;
    }
    this.#markWhenDue();
    // A majority has these records; the other nodes get a copy from one of them. The leader gets no copy, and needs the
    // log to undo refused changes.
    const isLogFull = this.#leaderLog?.isFull === true;
    if (isLogFull) this.#settleQuietly();
    await this.#trim(isLogFull ? 0 : this.#timing.slotsKept);
  }

  async #trim(slotsKept: number): Promise<void> {
    const keepFrom = Math.min(this.#notes.majoritySlot, this.#durableSlot) - slotsKept;
    if (keepFrom <= this.#trimmedTo) return;
    try {
      await this.#parts.shared.trim(keepFrom);
      this.#trimmedTo = keepFrom;
    } catch {
      // Retried with the next checkpoint; other calls report that the log servers do not answer.
    }
  }

  /** The slot up to which the store of this node is durable. */
  get #durableSlot(): number {
    const { follower } = this.#parts;
    return Math.max(follower.durablePosition.slot, this.#leaderLog?.durableSlot ?? 0);
  }

  /**
   * Whether the node that should lead was well for a while, so that the leaders do not stay where an emergency has put
   * them. A node that an operator has named as the leader stays the leader.
   */
  #isDueToHandBack(slot: number): boolean {
    const { self, nodes } = this.#parts;
    const [first = self.id] = nodes;
    const isWell = first !== self.id && !this.#isWanted && this.#notes.isWell(first, this.#readTo);
    this.#readTo = slot;
    this.#calm = isWell ? this.#calm + 1 : 0;
    return this.#calm > calmCheckpoints;
  }

  /** Writes a record up to which the other nodes, too, can make their kvs durable. */
  #markWhenDue(): void {
    const { position } = this.#leaderLog ?? {};
    if (position === undefined || this.#marked === undefined) return;
    if (quietSlots(this.#marked, position) <= this.#timing.slotsKept) return;
    this.#marked = position;
    this.#leading?.mark().catch(() => {
      // Retried after as many slots; other calls report that the log or the disk takes nothing.
    });
  }

  /** Makes the kv durable, because records that the engine here still needs cannot be trimmed. */
  #settleQuietly(): void {
    this.#leading?.settle().catch(() => {
      // Retried with the next checkpoint; the engine reports what is wrong with the disk.
    });
  }

  #finish(): void {
    this.#problem =
      "the cluster was ended. Run `codeq cluster leave` on one stopped node to start a server alone on its data.";
    this.#become("ended");
  }

  async #diverge(why: string): Promise<void> {
    this.#leader = undefined;
    await this.#parts.follower.secure().catch(() => {
      // The next call of `secure` reports why it fails.
    });
    this.#problem =
      `${why}. This node stops to follow the log, and keeps its data. ` +
      "Run `codeq cluster repair`; it shows what every node has before it changes anything.";
    this.#become("diverged");
  }

  #report(problem: string | undefined): void {
    const isNew = problem !== undefined && problem !== this.#problem;
    this.#problem = problem;
    if (isNew) this.#parts.onChange();
  }

  #become(role: ReplicaRole): void {
    if (this.#role === role) return;
    this.#role = role;
    this.#parts.onChange();
  }

  /** Waits for the time, or until another node sends a notice. */
  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#parts.clock.after(ms, () => this.#wake());
      this.#wake = () => {
        this.#wake = () => {};
        cancel();
        resolve();
      };
      if (this.#isStopping) this.#wake();
    });
  }
}
