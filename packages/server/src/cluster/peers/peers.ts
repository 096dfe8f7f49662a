/**
 * The other nodes of a cluster: this node listens for their routers, and its own router reaches leaders on
 * them. There is one connection from each node to each other node, with a channel for each shard.
 */
import { connect, createServer, type Server, type Socket } from "node:net";
import {
  connect as connectTls,
  createServer as createTlsServer,
  Server as TlsServer,
} from "node:tls";
import { FaultError, type LeaderName } from "@codeq/engine";
import type { Clock } from "../../core/clock.ts";
import { HandshakeTurns } from "../../core/handshake-turns.ts";
import { DamagedMessage } from "../../core/shards/wire.ts";
import { type Logger, SpacedWarnings } from "../../telemetry/logger.ts";
import type { Caller, Hosting } from "../replicated-shard.ts";
import { type ClusterSecrets, PeerSocket } from "./peer-socket.ts";

export interface PeersParts {
  readonly secrets: ClusterSecrets;
  /** Undefined for connections that are not encrypted. */
  readonly tls?: PeerTls | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called when a router of another node opens a channel to a shard here. */
  readonly onCall: (shard: number, caller: Caller) => Hosting | undefined;
  /** Called when another node wants a copy of a shard. Throws when this node has none. */
  readonly onSnapshot: (shard: number) => Snapshot;
  /** Called for any other question of another node. */
  readonly onAsk: (question: unknown) => Promise<unknown>;
}

/** PEM. Both ends show a certificate of the same CA, and that of the called end names its host. */
export interface PeerTls {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly ca: Buffer;
}

const tlsVersion = { minVersion: "TLSv1.3" } as const;

/** What a frame is about; its channel leads to one shard. */
const kinds = {
  open: 1,
  message: 2,
  end: 3,
  snapshot: 4,
  more: 5,
  piece: 6,
  whole: 7,
  ask: 8,
  answer: 9,
} as const;
const nothing = new Uint8Array(0);
/** Connections that have not shown yet that they belong to the cluster. */
const unauthenticatedMax = 128;
const handshakeMsMax = 5000;

export class Peers implements AsyncDisposable {
  readonly #parts: PeersParts;
  readonly #server: Server;
  readonly #calls: Map<string, PeerCalls> = new Map();
  readonly #served: Set<PeerSocket> = new Set();
  readonly #warnings: SpacedWarnings;
  /** Connections of which it is not known whether they belong to the cluster, oldest first. */
  readonly #unauthenticated: Map<string, Socket> = new Map();
  #tls: PeerTls | undefined;

  constructor(parts: PeersParts) {
    this.#parts = parts;
    this.#tls = parts.tls;
    this.#warnings = new SpacedWarnings(parts.logger, parts.clock);
    this.#server = this.#createServer();
    // Other nodes take one that does nothing but handshakes for dead.
    if (this.#server instanceof TlsServer) {
      const limits = { silentMsMax: handshakeMsMax, unfinishedMax: unauthenticatedMax };
      new HandshakeTurns(parts.clock, limits).watch(this.#server);
    }
    this.#server.on("connection", (socket: Socket) => this.#meet(socket));
  }

  /** For connections from now on. */
  useTls(tls: PeerTls): void {
    this.#tls = tls;
    if (this.#server instanceof TlsServer) {
      this.#server.setSecureContext({ ...tls, ...tlsVersion });
    }
  }

  /** Unauthenticated clients cannot keep nodes out: of too many connections, the oldest is closed. */
  #meet(socket: Socket): void {
    const name = endOf(socket);
    this.#unauthenticated.set(name, socket);
    socket.once("close", () => {
      if (this.#unauthenticated.get(name) === socket) this.#unauthenticated.delete(name);
    });
    if (this.#unauthenticated.size <= unauthenticatedMax) return;
    const [oldest = ""] = this.#unauthenticated.keys();
    this.#unauthenticated.get(oldest)?.destroy();
    this.#unauthenticated.delete(oldest);
  }

  /** Rejects when this process cannot listen on the address. */
  listen(address: string): Promise<void> {
    const { host, port } = hostAndPort(address);
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(port, host, () => {
        this.#server.off("error", reject);
        resolve();
      });
    });
  }

  /** Opens a channel to a shard on another node. Messages before the connection is open are lost. */
  dial(leader: LeaderName, shard: number, caller: Caller): Hosting {
    return this.#callsTo(leader.address).open(shard, caller);
  }

  /** Copies a shard of another node, piece by piece; resolves when all pieces were taken. */
  copy(node: LeaderName, shard: number, take: TakePiece): Promise<void> {
    return this.#callsTo(node.address).copy(shard, take);
  }

  /** Makes copies under way fail. */
  giveUpCopies(): void {
    for (const calls of this.#calls.values()) calls.giveUpCopies();
  }

  /** Asks another node a question and returns the answer, both as JSON. Throws when there is no answer. */
  ask(node: LeaderName, question: unknown): Promise<unknown> {
    return this.#callsTo(node.address).ask(question);
  }

  #callsTo(address: string): PeerCalls {
    let calls = this.#calls.get(address);
    if (calls === undefined) {
      calls = new PeerCalls(
        address,
        { ...this.#parts, tls: this.#tls, warn: this.#warn },
        ({ isUnknown, error }) => {
          this.#calls.delete(address);
          if (isUnknown) this.#warn("a node does not know the secret of this cluster", { address });
          if (error !== undefined)
            this.#warn("a node has no valid certificate", { address, error });
        },
      );
      this.#calls.set(address, calls);
    }
    return calls;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const calls of [...this.#calls.values()]) calls.close();
    for (const socket of [...this.#served]) socket.close();
    await new Promise<void>((resolve) => void this.#server.close(() => resolve()));
  }

  #createServer(): Server {
    const { tls } = this.#parts;
    if (tls === undefined) return createServer((socket) => this.#serve(socket));
    // Refused below, so that the refusal is logged.
    const client = { requestCert: true, rejectUnauthorized: false };
    const wanted = { ...tls, ...tlsVersion, ...client, handshakeTimeout: handshakeMsMax };
    const server = createTlsServer(wanted, (socket) => {
      if (socket.authorized) {
        this.#serve(socket);
        return;
      }
      this.#warnRefused(socket.remoteAddress, String(socket.authorizationError));
      socket.destroy();
    });
    server.on("tlsClientError", (error: NodeJS.ErrnoException, socket) => {
      // A connection that closes without sending anything was no attempt, for example a port check.
      if (error.code !== "ECONNRESET") this.#warnRefused(socket.remoteAddress, error.message);
    });
    return server;
  }

  #warnRefused(from: string | undefined, error?: string): void {
    this.#warn("an unauthenticated connection to the cluster port was refused", { from, error });
  }

  #serve(socket: Socket): void {
    const hostings = new Map<number, Hosting>();
    const snapshots = new Map<number, Snapshot>();
    const from = socket.remoteAddress;
    const peer: PeerSocket = new PeerSocket({
      ...this.#parts,
      socket,
      isCaller: false,
      onOpen: () => void this.#unauthenticated.delete(endOf(socket)),
      onFrame: (kind, channel, body) => {
        if (kind === kinds.open)
          this.#unlessDamaged(peer, () => this.#answer(peer, hostings, channel, body));
        else if (kind === kinds.message) this.#take(peer, hostings.get(channel), body);
        else if (kind === kinds.snapshot)
          this.#unlessDamaged(peer, () => this.#beginCopy(peer, snapshots, channel, body));
        else if (kind === kinds.more) void this.#nextPiece(peer, snapshots, channel);
        else if (kind === kinds.ask) this.#answerAsk(peer, channel, body);
        else {
          hostings.get(channel)?.close();
          hostings.delete(channel);
          void snapshots.get(channel)?.return(undefined);
          snapshots.delete(channel);
        }
      },
      onClose: (isUnknown) => {
        this.#served.delete(peer);
        for (const hosting of hostings.values()) hosting.close();
        for (const snapshot of snapshots.values()) void snapshot.return(undefined);
        if (isUnknown) this.#warnRefused(from);
      },
    });
    this.#served.add(peer);
  }

  #take(peer: PeerSocket, hosting: Hosting | undefined, body: Uint8Array): void {
    this.#unlessDamaged(peer, () => hosting?.take(body));
  }

  #answerAsk(peer: PeerSocket, channel: number, body: Uint8Array): void {
    this.#unlessDamaged(peer, () => {
      const asked = this.#parts.onAsk(jsonOf(body));
      void asked.then((answer) => peer.send(kinds.answer, channel, jsonBytes(answer)));
    });
  }

  #unlessDamaged(peer: PeerSocket, take: () => void): void {
    unlessDamaged(this.#warn, peer, take);
  }

  #answer(
    peer: PeerSocket,
    hostings: Map<number, Hosting>,
    channel: number,
    body: Uint8Array,
  ): void {
    const shard = shardOf(body);
    const hosting = this.#parts.onCall(shard, {
      hear: (message) => peer.send(kinds.message, channel, message),
      end: () => {
        hostings.delete(channel);
        peer.send(kinds.end, channel, nothing);
      },
    });
    if (hosting === undefined) peer.send(kinds.end, channel, nothing);
    else hostings.set(channel, hosting);
  }

  #beginCopy(
    peer: PeerSocket,
    snapshots: Map<number, Snapshot>,
    channel: number,
    body: Uint8Array,
  ): void {
    try {
      snapshots.set(channel, this.#parts.onSnapshot(shardOf(body)));
      void this.#nextPiece(peer, snapshots, channel);
    } catch (error) {
      if (!(error instanceof FaultError)) throw error;
      peer.send(kinds.end, channel, nothing);
    }
  }

  /** One piece for each question, so that neither side holds more than one. */
  async #nextPiece(
    peer: PeerSocket,
    snapshots: Map<number, Snapshot>,
    channel: number,
  ): Promise<void> {
    const snapshot = snapshots.get(channel);
    try {
      const next = await snapshot?.next();
      if (next?.done === false) {
        peer.send(kinds.piece, channel, next.value);
        return;
      }
      peer.send(next === undefined ? kinds.end : kinds.whole, channel, nothing);
    } catch (error) {
      this.#warn("a shard could not be copied to another node", { error: String(error) });
      peer.send(kinds.end, channel, nothing);
    }
    snapshots.delete(channel);
  }

  readonly #warn: Warn = (text, fields) => this.#warnings.warn(text, fields);
}

type Warn = (text: string, fields: Readonly<Record<string, unknown>>) => void;

/** The bytes of an image, which another node reads. */
export type Snapshot = AsyncGenerator<Buffer, unknown, void>;
export type TakePiece = (piece: Buffer) => Promise<void>;

interface Copying {
  readonly take: TakePiece;
  readonly done: () => void;
  readonly failed: (fault: FaultError) => void;
}

interface Heard {
  readonly kind: number;
  readonly channel: number;
  readonly body: Uint8Array<ArrayBuffer>;
}

interface Asked {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (fault: FaultError) => void;
}

/** The channels of this node to the shards of one other. */
class PeerCalls {
  readonly #peer: PeerSocket;
  readonly #callers: Map<number, Caller> = new Map();
  readonly #copies: Map<number, Copying> = new Map();
  readonly #asked: Map<number, Asked> = new Map();
  /** Messages to send when the connection is open. */
  readonly #early: Map<number, () => void> = new Map();
  #channels = 0;

  constructor(
    address: string,
    parts: Pick<PeersParts, "secrets" | "clock" | "tls"> & { readonly warn: Warn },
    onClose: (why: { readonly isUnknown: boolean; readonly error: string | undefined }) => void,
  ) {
    const { secrets, clock, tls } = parts;
    let error: string | undefined;
    const socket = dial(address, tls, (message) => {
      error = message;
    });
    this.#peer = new PeerSocket({
      secrets,
      clock,
      socket,
      isCaller: true,
      onOpen: () => {
        for (const say of this.#early.values()) say();
        this.#early.clear();
      },
      onFrame: (kind, channel, body) => {
        unlessDamaged(parts.warn, this.#peer, () => this.#hear({ kind, channel, body }));
      },
      onClose: (isUnknown) => {
        onClose({ isUnknown, error });
        const callers = [...this.#callers.values()];
        this.#callers.clear();
        for (const caller of callers) caller.end();
        for (const { failed } of this.#copies.values()) failed(notCopied());
        this.#copies.clear();
        for (const { reject } of this.#asked.values()) reject(notAnswered(address));
        this.#asked.clear();
      },
    });
  }

  #hear(heard: Heard): void {
    const { kind, channel, body } = heard;
    const caller = this.#callers.get(channel);
    const copying = this.#copies.get(channel);
    // A piece of a copy that was cancelled.
    if (copying === undefined && isOfCopy(kind)) return;
    const asked = this.#asked.get(channel);
    if (copying !== undefined) this.#copied(copying, heard);
    else if (asked !== undefined) {
      const answer = jsonOf(body);
      this.#asked.delete(channel);
      asked.resolve(answer);
    } else if (kind === kinds.message) caller?.hear(body);
    else {
      this.#callers.delete(channel);
      caller?.end();
    }
  }

  open(shard: number, caller: Caller): Hosting {
    this.#channels += 1;
    const channel = this.#channels;
    this.#callers.set(channel, caller);
    this.#say(channel, () => this.#begin(kinds.open, channel, shard));
    return {
      take: (message) => this.#peer.send(kinds.message, channel, message),
      close: () => {
        this.#early.delete(channel);
        if (this.#callers.delete(channel)) this.#peer.send(kinds.end, channel, nothing);
      },
    };
  }

  copy(shard: number, take: TakePiece): Promise<void> {
    this.#channels += 1;
    const channel = this.#channels;
    return new Promise((resolve, reject) => {
      this.#copies.set(channel, { take, done: resolve, failed: reject });
      this.#say(channel, () => this.#begin(kinds.snapshot, channel, shard));
    });
  }

  giveUpCopies(): void {
    for (const [channel, { failed }] of this.#copies) {
      this.#peer.send(kinds.end, channel, nothing);
      failed(notCopied());
    }
    this.#copies.clear();
  }

  ask(question: unknown): Promise<unknown> {
    this.#channels += 1;
    const channel = this.#channels;
    return new Promise((resolve, reject) => {
      this.#asked.set(channel, { resolve, reject });
      this.#say(channel, () => this.#peer.send(kinds.ask, channel, jsonBytes(question)));
    });
  }

  close(): void {
    this.#peer.close();
  }

  #say(channel: number, say: () => void): void {
    if (this.#peer.isOpen) say();
    else this.#early.set(channel, say);
  }

  #copied({ take, done, failed }: Copying, { kind, channel, body }: Heard): void {
    if (kind === kinds.piece) {
      take(Buffer.from(body.buffer, body.byteOffset, body.byteLength)).then(
        () => this.#peer.send(kinds.more, channel, nothing),
        (error: FaultError) => {
          this.#copies.delete(channel);
          this.#peer.send(kinds.end, channel, nothing);
          failed(error);
        },
      );
      return;
    }
    this.#copies.delete(channel);
    if (kind === kinds.whole) done();
    else failed(notCopied());
  }

  #begin(kind: number, channel: number, shard: number): void {
    const body = Buffer.alloc(4);
    body.writeUInt32LE(shard, 0);
    this.#peer.send(kind, channel, body);
  }
}

/** The other end of a connection, the same for the TCP connection and for TLS on top of it. */
function endOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** A message that cannot be read, for example from a node of another version, closes the connection. */
function unlessDamaged(warn: Warn, peer: PeerSocket, take: () => void): void {
  try {
    take();
  } catch (error) {
    if (!(error instanceof DamagedMessage)) throw error;
    warn("a node said what cannot be read; its connection is closed", { error: error.message });
    peer.close();
  }
}

function isOfCopy(kind: number): boolean {
  return kind === kinds.piece || kind === kinds.whole;
}

/** `onRefused` gets the reason why the other end is not the expected node. */
function dial(
  address: string,
  tls: PeerTls | undefined,
  onRefused: (message: string) => void,
): Socket {
  if (tls === undefined) return connect(hostAndPort(address));
  const socket = connectTls({ ...hostAndPort(address), ...tls, ...tlsVersion });
  let isReached = false;
  socket.once("connect", () => {
    isReached = true;
  });
  socket.once("error", ({ code, message }: NodeJS.ErrnoException) => {
    // A connection that is lost says nothing about certificates.
    if (isReached && code !== "EPIPE" && code !== "ECONNRESET") onRefused(message);
  });
  return socket;
}

function notCopied(): FaultError {
  return new FaultError("storage_failed", "the other node has no copy of the shard, or went away");
}

function notAnswered(address: string): FaultError {
  return new FaultError("not_leader", `the node at ${address} does not answer`);
}

function jsonBytes(value: unknown): Uint8Array {
  return Buffer.from(JSON.stringify(value ?? null));
}

function shardOf(body: Uint8Array): number {
  if (body.length !== 4) throw new DamagedMessage("no number of a shard");
  return Buffer.from(body).readUInt32LE(0);
}

function jsonOf(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString());
  } catch {
    throw new DamagedMessage("no JSON");
  }
}

/** Splits `host:port` or `[address]:port`. */
export function hostAndPort(address: string): { readonly host: string; readonly port: number } {
  const at = address.lastIndexOf(":");
  const host = address.slice(0, at).replace(/^\[(.*)\]$/, "$1");
  return { host, port: Number(address.slice(at + 1)) };
}
