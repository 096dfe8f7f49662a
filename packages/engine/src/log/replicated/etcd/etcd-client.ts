/**
 * Calls to a cluster of etcd: to the nearest member as long as that one answers, then to the next one. A call is
 * sent once; its caller decides about repeats.
 */
import * as messages from "@codeq/protocol/etcd";
import { decodeMessage, type WireRead, type WireWrite } from "@codeq/protocol/wire";
import type { EngineClock } from "../../../engine-options.ts";
import { closed } from "../../log-fault.ts";
import {
  GrpcChannel,
  type GrpcChannelOptions,
  GrpcError,
  type GrpcMethod,
  type GrpcTls,
  grpcStatus,
  type StreamListener,
} from "./grpc-channel.ts";

export interface EtcdClientOptions {
  /** The nearest one first. */
  readonly urls: readonly string[];
  readonly tls?: GrpcTls | undefined;
  readonly clock: EngineClock;
}

/** An answer without anything in it that matters here. */
export type Done = Readonly<Record<string, never>>;

interface EtcdMethods {
  readonly range: GrpcMethod<messages.RangeRequest, messages.RangeResponse>;
  readonly put: GrpcMethod<messages.PutRequest, Done>;
  readonly txn: GrpcMethod<messages.TxnRequest, messages.TxnResponse>;
  readonly compact: GrpcMethod<messages.CompactionRequest, Done>;
  readonly watch: GrpcMethod<messages.WatchRequest, messages.WatchResponse>;
  readonly memberList: GrpcMethod<messages.MemberListRequest, messages.MemberListResponse>;
  readonly memberAdd: GrpcMethod<messages.MemberAddRequest, messages.MemberListResponse>;
  readonly memberRemove: GrpcMethod<messages.MemberIdRequest, Done>;
  readonly memberPromote: GrpcMethod<messages.MemberIdRequest, Done>;
  readonly status: GrpcMethod<undefined, messages.StatusResponse>;
  readonly defragment: GrpcMethod<undefined, Done>;
  readonly moveLeader: GrpcMethod<messages.MemberIdRequest, Done>;
  readonly alarm: GrpcMethod<messages.AlarmRequest, messages.AlarmResponse>;
}

const readDone = (): Done => ({});
const writeNothing = (): void => {};

export const etcdMethods: EtcdMethods = {
  range: method("KV/Range", messages.writeRangeRequest, messages.readRangeResponse),
  put: method("KV/Put", messages.writePutRequest, readDone),
  txn: method("KV/Txn", messages.writeTxnRequest, messages.readTxnResponse),
  compact: method("KV/Compact", messages.writeCompactionRequest, readDone),
  watch: method("Watch/Watch", messages.writeWatchRequest, messages.readWatchResponse),
  memberList: method(
    "Cluster/MemberList",
    messages.writeMemberListRequest,
    messages.readMemberListResponse,
  ),
  memberAdd: method(
    "Cluster/MemberAdd",
    messages.writeMemberAddRequest,
    messages.readMemberListResponse,
  ),
  memberRemove: method("Cluster/MemberRemove", messages.writeMemberIdRequest, readDone),
  memberPromote: method("Cluster/MemberPromote", messages.writeMemberIdRequest, readDone),
  status: method("Maintenance/Status", writeNothing, messages.readStatusResponse),
  defragment: method("Maintenance/Defragment", writeNothing, readDone),
  moveLeader: method("Maintenance/MoveLeader", messages.writeMemberIdRequest, readDone),
  alarm: method("Maintenance/Alarm", messages.writeAlarmRequest, messages.readAlarmResponse),
};

/** How often a client that uses another member asks whether the nearest one answers again. */
const homeEveryMs = 500;
const homeTimeoutMs = 500;
/** How long a member may take before the next one is asked as well; half as long for the second one. */
const nextAfterMs = 200;

export class EtcdClient {
  #options: Pick<GrpcChannelOptions, "tls" | "clock">;
  readonly #channels: readonly GrpcChannel[];
  readonly #clock: EngineClock;
  /** The member in use. */
  #at = 0;
  #cancelHome: (() => void) | undefined;
  #isClosed = false;

  constructor({ urls, tls, clock }: EtcdClientOptions) {
    this.#options = { tls, clock };
    this.#channels = urls.map((url) => new GrpcChannel({ url, tls, clock }));
    this.#clock = clock;
  }

  /** For connections from now on. */
  useTls(tls: GrpcTls): void {
    this.#options = { ...this.#options, tls };
    for (const channel of this.#channels) channel.useTls(tls);
  }

  /** The URL of the member in use. */
  get url(): string {
    return this.#channel.url;
  }

  get urls(): readonly string[] {
    return this.#channels.map(({ url }) => url);
  }

  async call<Request, Response>(
    method: GrpcMethod<Request, Response>,
    request: Request,
    timeoutMs: number,
  ): Promise<Response> {
    if (this.#isClosed) throw closed();
    const channel = this.#channel;
    try {
      return await channel.call(method, request, timeoutMs);
    } catch (error) {
      if (!isAnswer(error)) this.leave(channel.url);
      throw error;
    }
  }

  /** A call to one member, which the client need not use otherwise. */
  async callAt<Request, Response>(
    url: string,
    call: {
      readonly method: GrpcMethod<Request, Response>;
      readonly request: Request;
      readonly timeoutMs: number;
    },
  ): Promise<Response> {
    if (this.#isClosed) throw closed();
    const known = this.#channels.find((each) => each.url === url);
    const channel = known ?? new GrpcChannel({ ...this.#options, url });
    try {
      return await channel.call(call.method, call.request, call.timeoutMs);
    } finally {
      if (known === undefined) channel.close();
    }
  }

  /**
   * Asks the members in turn until one answers, and the next one also when there is no answer after a while: a member
   * that is cut off keeps its callers waiting. Only for requests that may be carried out twice. `onCopy` is called
   * when the request is sent once more.
   */
  ask<Request, Response>(
    method: GrpcMethod<Request, Response>,
    request: Request,
    { timeoutMs, onCopy }: { readonly timeoutMs: number; readonly onCopy?: () => void },
  ): Promise<Response> {
    return new Promise((resolve, reject) => {
      let asked = 0;
      let failed = 0;
      let cancelNext = (): void => {};
      const over = (run: () => void): void => {
        cancelNext();
        asked = this.#channels.length;
        run();
      };
      const askNext = (): void => {
        cancelNext();
        if (asked === this.#channels.length) return;
        const { url } = this.#channel;
        if (asked > 0) onCopy?.();
        asked += 1;
        this.call(method, request, timeoutMs).then(
          (response) => over(() => resolve(response)),
          (error: unknown) => {
            failed += 1;
            if (isAnswer(error) || failed === this.#channels.length) over(() => reject(error));
            else askNext();
          },
        );
        cancelNext = this.#clock.after(nextAfterMs / asked, () => {
          this.leave(url);
          askNext();
        });
      };
      askNext();
    });
  }

  stream<Request, Response>(
    method: GrpcMethod<Request, Response>,
    request: Request,
    listener: StreamListener<Response>,
  ): () => void {
    if (this.#isClosed) return () => {};
    const channel = this.#channel;
    return channel.stream(method, request, {
      message: (response) => listener.message(response),
      ended: (error) => {
        this.leave(channel.url);
        listener.ended(error);
      },
    });
  }

  /** Uses the next member from now on, if this one is in use. */
  leave(url: string): void {
    if (this.#isClosed || this.#channel.url !== url || this.#channels.length === 1) return;
    this.#at = (this.#at + 1) % this.#channels.length;
    this.#cancelHome ??= this.#clock.after(homeEveryMs, () => void this.#goHome());
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelHome?.();
    for (const channel of this.#channels) channel.close();
  }

  get #channel(): GrpcChannel {
    return this.#channels[this.#at] as GrpcChannel;
  }

  /** The nearest member is used again when it answers a question that takes a majority. */
  async #goHome(): Promise<void> {
    this.#cancelHome = undefined;
    if (this.#at === 0 || this.#isClosed) return;
    try {
      const request = { ...messages.newRangeRequest(), key: "codeq", keysOnly: true };
      await this.#channels[0]?.call(etcdMethods.range, request, homeTimeoutMs);
      this.#at = 0;
    } catch {
      // The request is repeated after a while.
    }
    if (this.#at !== 0 && !this.#isClosed) {
      this.#cancelHome = this.#clock.after(homeEveryMs, () => void this.#goHome());
    }
  }
}

/** Whether the server has decided about the request; otherwise another server may do better. */
function isAnswer(error: unknown): boolean {
  if (!(error instanceof GrpcError)) return false;
  const { invalidArgument, failedPrecondition, outOfRange, resourceExhausted } = grpcStatus;
  const answers: readonly number[] = [
    invalidArgument,
    failedPrecondition,
    outOfRange,
    resourceExhausted,
  ];
  return answers.includes(error.status);
}

function method<Request, Response>(
  name: string,
  write: WireWrite<Request>,
  read: WireRead<Response>,
): GrpcMethod<Request, Response> {
  return {
    path: `/etcdserverpb.${name}`,
    write,
    read: (bytes) => decodeMessage(read, bytes),
  };
}
