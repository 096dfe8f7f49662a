/**
 * The shared log as a stream of NATS JetStream: a slot is a sequence number of the stream.
 *
 * Records are published with `Nats-Expected-Last-Sequence`, the compare of compare-and-append, and read by
 * DIRECT.GET, which any of the servers answers. No consumer is used: ordered ones stayed stuck for a long
 * time behind a server that was paused. A publish that meets a change of the stream's leader is dropped
 * without an answer, so timeouts are short.
 *
 * Only `create` makes a stream; `open` of a missing stream returns undefined.
 */
import {
  headers,
  type Msg,
  type NatsConnection,
  NoRespondersError,
  type Subscription,
} from "@nats-io/transport-node";
import { FaultError } from "../../fault.ts";
import { behind } from "../log-fault.ts";
import { connectNats, type NatsServersOptions } from "./nats-connection.ts";
import type { Appending, LogBounds, LogRoom, SharedLog } from "./shared-log.ts";

export interface NewLog {
  readonly logId: number;
  /** Above 1 for a log that continues another log. */
  readonly firstSlot?: number | undefined;
  readonly replicas: number;
  readonly bytesMax: number;
}

export interface FoundLog {
  readonly logId: number;
  readonly bounds: LogBounds;
  /** How many servers should store the log. */
  readonly replicas: number;
  /** The servers that store the log; empty for a single server. */
  readonly kept: readonly KeptBy[];
}

export interface KeptBy {
  /** The name of the server. */
  readonly server: string;
  readonly isCurrent: boolean;
}

/** The metadata key of the stream that holds the id of the log. */
const logIdKey = "codeq_log_id";
const batchMax = 256;
const batchBytesMax = 4 * 1024 * 1024;
const readTimeoutMs = 2000;
const manageTimeoutMs = 5000;
const appendTimeoutMinMs = 300;
const appendTimeoutMaxMs = 2000;
/** Bytes of the allowed payload that the headers of a publish take. */
const headerRoomBytes = 1024;
const errorCodes = {
  wrongLastSequence: 10071,
  wrongLastSequenceConstant: 10164,
  storeFailed: 10077,
  streamNotFound: 10059,
  nameInUse: 10058,
} as const;
const endOfBatch = 204;
const notFound = 404;

/** A connection to the log servers that reconnects by itself, without a time limit. */
export class NatsServers implements AsyncDisposable {
  readonly #connection: NatsConnection;

  private constructor(connection: NatsConnection) {
    this.#connection = connection;
  }

  static async connect(options: NatsServersOptions): Promise<NatsServers> {
    return new NatsServers(await connectNats(options));
  }

  /** The version of the server that answers now. */
  get version(): string {
    return this.#connection.info?.version ?? "unknown";
  }

  get server(): string {
    return this.#connection.getServer();
  }

  /** Makes the stream of a new log; returns false when there is one of this name. */
  async create(name: string, log: NewLog): Promise<boolean> {
    const answer = await this.#manage(`STREAM.CREATE.${name}`, {
      name,
      subjects: [subjectOf(name)],
      retention: "limits",
      storage: "file",
      discard: "new",
      num_replicas: log.replicas,
      max_bytes: log.bytesMax,
      ...(log.firstSlot === undefined ? {} : { first_seq: log.firstSlot }),
      max_consumers: 0,
      duplicate_window: 0,
      allow_direct: true,
      deny_delete: true,
      metadata: { [logIdKey]: String(log.logId) },
    });
    if (answer.error === undefined) return true;
    if (answer.error.err_code === errorCodes.nameInUse) return false;
    throw refused(name, "could not be made", answer.error);
  }

  /** Where the records of a log are, and which log it is; undefined when there is no stream of this name. */
  async look(name: string): Promise<FoundLog | undefined> {
    const info = await this.#info(name);
    if (info === undefined) return undefined;
    const { config, cluster } = info;
    const kept = cluster?.leader === undefined ? [] : [{ server: cluster.leader, isCurrent: true }];
    for (const { name: server, current, offline } of cluster?.replicas ?? []) {
      kept.push({ server, isCurrent: current === true && offline !== true });
    }
    const replicas = config?.num_replicas ?? 1;
    return { logId: logIdOf(info), replicas, kept, bounds: boundsOf(info) };
  }

  /** Moves the log from this server to another one. Throws when there is no other. */
  async moveAway(name: string, server: string): Promise<void> {
    const answer = await this.#manage(`STREAM.PEER.REMOVE.${name}`, { peer: server });
    if (answer.error !== undefined) {
      throw refused(name, `could not be moved away from ${server}`, answer.error);
    }
  }

  /** Sets how many servers store the log. */
  async setReplicas(name: string, replicas: number): Promise<void> {
    const info = await this.#info(name);
    const wanted = { ...info?.config, num_replicas: replicas };
    const answer = await this.#manage(`STREAM.UPDATE.${name}`, wanted);
    if (answer.error !== undefined) {
      throw refused(name, `could not be kept by ${replicas} servers`, answer.error);
    }
  }

  /** Removes a log that is not needed any more. */
  async remove(name: string): Promise<void> {
    const { error } = await this.#manage(`STREAM.DELETE.${name}`, {});
    if (error === undefined || error.err_code === errorCodes.streamNotFound) return;
    throw refused(name, "could not be removed", error);
  }

  /** Undefined when there is no stream of this name. */
  async open(name: string): Promise<SharedLog | undefined> {
    const info = await this.#info(name);
    if (info === undefined) return undefined;
    const logId = logIdOf(info);
    if (!(logId > 0)) {
      const why = `stream ${name} was not made by codeQ: its metadata has no ${logIdKey}`;
      throw new FaultError("format", `${why}. Choose another cluster name, or remove the stream.`);
    }
    const connection = this.#connection;
    const info$ = async (): Promise<StreamInfo | undefined> => {
      const found = await this.#info(name);
      const foundId = logIdOf(found);
      if (found !== undefined && foundId !== logId) throw exchanged(name, { foundId, logId });
      return found;
    };
    const purge = async (slot: number): Promise<void> => {
      const answer = await this.#manage(`STREAM.PURGE.${name}`, { seq: slot });
      if (answer.error !== undefined) throw refused(name, "could not be trimmed", answer.error);
    };
    return new NatsSharedLog({ connection, name, logId, info: info$, purge });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#connection.close();
  }

  async #info(name: string): Promise<StreamInfo | undefined> {
    const answer = await this.#manage(`STREAM.INFO.${name}`, {});
    if (answer.error === undefined) return answer;
    if (answer.error.err_code === errorCodes.streamNotFound) return undefined;
    throw refused(name, "cannot be looked at", answer.error);
  }

  async #manage(what: string, request: unknown): Promise<StreamInfo> {
    const options = { timeout: manageTimeoutMs };
    try {
      const text = JSON.stringify(request);
      return (await this.#connection.request(`$JS.API.${what}`, text, options)).json();
    } catch (error) {
      throw silent(error);
    }
  }
}

interface StreamInfo {
  readonly error?: ApiError;
  readonly config?: {
    readonly metadata?: Readonly<Record<string, string>>;
    readonly num_replicas?: number;
    readonly max_bytes?: number;
  };
  readonly cluster?: {
    readonly leader?: string;
    /** The other servers, without the leader. */
    readonly replicas?: readonly {
      readonly name: string;
      readonly current?: boolean;
      readonly offline?: boolean;
    }[];
  };
  readonly state?: {
    readonly messages: number;
    readonly bytes: number;
    readonly first_seq: number;
    readonly last_seq: number;
  };
}

interface ApiError {
  readonly code: number;
  readonly err_code: number;
  readonly description: string;
}

interface PublishAnswer {
  readonly seq?: number;
  readonly error?: ApiError;
}

interface NatsSharedLogParts {
  readonly connection: NatsConnection;
  readonly name: string;
  readonly logId: number;
  /** Undefined when the stream is gone. */
  readonly info: () => Promise<StreamInfo | undefined>;
  readonly purge: (slot: number) => Promise<void>;
}

class NatsSharedLog implements SharedLog {
  onNotice: (text: string) => void = () => {};
  readonly logId: number;
  readonly #parts: NatsSharedLogParts;
  readonly #notices: Subscription;
  #appendTimeoutMs = appendTimeoutMinMs;
  /** Why the stream has no responders, as far as the servers have said. */
  #absence: string | undefined;
  #isLooking = false;
  #payloadBytesMax = Number.POSITIVE_INFINITY;

  constructor(parts: NatsSharedLogParts) {
    this.#parts = parts;
    this.logId = parts.logId;
    this.#notices = parts.connection.subscribe(noticesOf(parts.name), {
      callback: (error, message) => {
        if (error === null) this.onNotice(message.string());
      },
    });
  }

  get recordBytesMax(): number {
    // While the connection is lost, the limit of the next server is unknown.
    this.#payloadBytesMax = this.#parts.connection.info?.max_payload ?? this.#payloadBytesMax;
    return this.#payloadBytesMax - headerRoomBytes;
  }

  async append(record: Uint8Array, slot: number): Promise<Appending> {
    const { connection, name } = this.#parts;
    const expected = headers();
    expected.set("Nats-Expected-Last-Sequence", String(slot - 1));
    expected.set("Nats-Expected-Stream", name);
    const options = { headers: expected, timeout: this.#appendTimeoutMs };
    try {
      const message = await connection.request(subjectOf(name), record, options);
      this.#appendTimeoutMs = appendTimeoutMinMs;
      this.#absence = undefined;
      return outcomeOf(message.json<PublishAnswer>(), slot);
    } catch (error) {
      this.#appendTimeoutMs = Math.min(this.#appendTimeoutMs * 2, appendTimeoutMaxMs);
      return { kind: "unknown", why: this.#whyOf(error as Error) };
    }
  }

  async read(slot: number): Promise<readonly Uint8Array[]> {
    const { connection, name } = this.#parts;
    const request = JSON.stringify({ seq: slot, batch: batchMax, max_bytes: batchBytesMax });
    const records: Uint8Array[] = [];
    try {
      const answers = await connection.requestMany(`$JS.API.DIRECT.GET.${name}`, request, {
        strategy: "sentinel",
        maxWait: readTimeoutMs,
      });
      for await (const message of answers) {
        if (isEnd(message)) break;
        const found = Number(message.headers?.get("Nats-Sequence"));
        if (found !== slot + records.length) {
          if (records.length === 0) throw behind(slot, found);
          break;
        }
        records.push(message.data);
      }
    } catch (error) {
      if (error instanceof FaultError) throw error;
      throw silent(error, this.#whyOf(error as Error));
    }
    this.#absence = undefined;
    return records;
  }

  /**
   * A stream has no responders when it is gone, and also while its servers elect a leader. To find out which takes
   * a request that may be slow, so its answer is returned the next time.
   */
  #whyOf(error: Error): string {
    const isAbsent = error instanceof NoRespondersError || error.cause instanceof NoRespondersError;
    if (isAbsent && !this.#isLooking) {
      this.#isLooking = true;
      void this.#look();
    }
    return this.#absence ?? error.message;
  }

  async #look(): Promise<void> {
    const { info, name } = this.#parts;
    try {
      this.#absence = (await info()) === undefined ? gone(name).message : undefined;
    } catch (error) {
      this.#absence =
        (error as FaultError).code === "corrupt" ? (error as Error).message : undefined;
    }
    this.#isLooking = false;
  }

  async bounds(): Promise<LogBounds> {
    return boundsOf(await this.#found());
  }

  async room(): Promise<LogRoom> {
    const { config, state } = await this.#found();
    const max = config?.max_bytes ?? -1;
    const bytesMax = max < 0 ? Number.POSITIVE_INFINITY : max;
    return { freeBytes: Math.max(0, bytesMax - (state?.bytes ?? 0)), bytesMax };
  }

  async trim(slot: number): Promise<void> {
    const { first, last } = await this.bounds();
    const keep = Math.min(slot, last);
    if (keep > first) await this.#parts.purge(keep);
  }

  async #found(): Promise<StreamInfo> {
    const found = await this.#parts.info();
    if (found === undefined) throw gone(this.#parts.name);
    return found;
  }

  notify(text = ""): void {
    const { connection, name } = this.#parts;
    if (!connection.isClosed()) connection.publish(noticesOf(name), text);
  }

  async close(): Promise<void> {
    this.#notices.unsubscribe();
  }
}

function logIdOf(info: StreamInfo | undefined): number {
  return Number(info?.config?.metadata?.[logIdKey]);
}

function boundsOf({ state }: StreamInfo): LogBounds {
  if (state === undefined) throw silent(new Error("the stream tells nothing of its state"));
  const last = state.last_seq;
  return { first: state.messages === 0 ? last + 1 : state.first_seq, last };
}

function outcomeOf({ seq, error }: PublishAnswer, slot: number): Appending {
  if (error === undefined) {
    if (seq === slot) return { kind: "kept" };
    return { kind: "unknown", why: `the stream answered with ${seq} instead of ${slot}` };
  }
  switch (error.err_code) {
    case errorCodes.wrongLastSequence:
    case errorCodes.wrongLastSequenceConstant:
      return { kind: "fenced" };
    case errorCodes.storeFailed:
      return isNoRoom(error)
        ? { kind: "full", why: error.description }
        : { kind: "unknown", why: error.description };
    default:
      return { kind: "unknown", why: error.description };
  }
}

/** The same error code stands for every failure to store a record; most of them are temporary. */
function isNoRoom({ description }: ApiError): boolean {
  return description.startsWith("maximum bytes exceeded");
}

function isEnd(message: Msg): boolean {
  const status = message.headers?.code ?? 0;
  if (status === endOfBatch || status === notFound) return true;
  if (status === 0 || status === 200) return false;
  throw new Error(`${status} ${message.headers?.description ?? ""}`);
}

const subjectOf = (name: string): string => `codeq.log.${name}`;
/** All nodes of a cluster use this subject, also nodes of other versions. */
const noticesOf = (name: string): string => `codeq.poke.${name}`;

function silent(error: unknown, why: string = (error as Error).message): FaultError {
  const text = `the log servers do not answer: ${why}. Check that nats-server runs with JetStream`;
  return new FaultError(
    "storage_failed",
    `${text} and that a majority of the servers is up.`,
    error,
  );
}

function gone(name: string): FaultError {
  const text = `stream ${name} is gone: somebody removed it, or the log servers lost it`;
  const todo =
    "Every node keeps its data; remove none of it. Restore the stream, or run `codeq cluster repair`.";
  return new FaultError("storage_failed", `${text}. ${todo}`);
}

function exchanged(
  name: string,
  ids: { readonly foundId: number; readonly logId: number },
): FaultError {
  const text = `stream ${name} is another log (${ids.foundId}) than this node follows (${ids.logId})`;
  const todo = "Check that natsUrls and the data directory belong to the same cluster";
  return new FaultError("corrupt", `${text}. ${todo}.`);
}

function refused(name: string, what: string, error: ApiError): FaultError {
  const text = `stream ${name} ${what}: ${error.description} (${error.err_code})`;
  return new FaultError("storage_failed", text, error);
}
