/**
 * The other nodes of a cluster: this node listens for their routers, and its own routers reach leaders on
 * them. There is one connection from each node to each other one, for the conversations with all shards.
 */
import { connect, createServer, type Server, type Socket } from "node:net";
import type { LeaderName } from "@codeq/engine";
import type { Clock } from "../clock.ts";
import { DamagedMessage } from "../shards/message.ts";
import type { Logger } from "../telemetry/logger.ts";
import { SpacedWarnings } from "../telemetry/spaced-warnings.ts";
import { PeerSocket } from "./peer-socket.ts";
import type { Caller, Hosting } from "./replicated-shard.ts";

export interface PeersParts {
  readonly secret: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A router of another node wants to talk to a shard here. */
  readonly onCall: (shard: number, caller: Caller) => Hosting | undefined;
}

/** What a frame is about; its channel is a conversation with one shard. */
const kinds = { open: 1, message: 2, end: 3 } as const;
const nothing = new Uint8Array(0);
const connectionsMax = 256;

export class Peers implements AsyncDisposable {
  readonly #parts: PeersParts;
  readonly #server: Server;
  readonly #calls: Map<string, PeerCalls> = new Map();
  readonly #served: Set<PeerSocket> = new Set();
  readonly #warnings: SpacedWarnings;

  constructor(parts: PeersParts) {
    this.#parts = parts;
    this.#warnings = new SpacedWarnings(parts.logger, parts.clock);
    this.#server = createServer((socket) => this.#serve(socket));
    this.#server.maxConnections = connectionsMax;
  }

  /** Rejects when the address cannot be had. */
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

  /** Begins to talk to a shard on another node. What is said before the connection is open is lost. */
  dial(leader: LeaderName, shard: number, caller: Caller): Hosting {
    const { address } = leader;
    let calls = this.#calls.get(address);
    if (calls === undefined) {
      calls = new PeerCalls(address, this.#parts, (isStranger) => {
        this.#calls.delete(address);
        if (isStranger) this.#warn("a node does not know the secret of this cluster", { address });
      });
      this.#calls.set(address, calls);
    }
    return calls.open(shard, caller);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const calls of [...this.#calls.values()]) calls.close();
    for (const socket of [...this.#served]) socket.close();
    await new Promise<void>((resolve) => void this.#server.close(() => resolve()));
  }

  #serve(socket: Socket): void {
    const hostings = new Map<number, Hosting>();
    const from = socket.remoteAddress;
    const peer: PeerSocket = new PeerSocket({
      ...this.#parts,
      socket,
      isCaller: false,
      onOpen: () => {},
      onFrame: (kind, channel, body) => {
        if (kind === kinds.open) this.#answer(peer, hostings, channel, body);
        else if (kind === kinds.message) this.#take(peer, hostings.get(channel), body);
        else {
          hostings.get(channel)?.close();
          hostings.delete(channel);
        }
      },
      onClose: (isStranger) => {
        this.#served.delete(peer);
        for (const hosting of hostings.values()) hosting.close();
        if (isStranger) this.#warn("a stranger was refused on the port of the cluster", { from });
      },
    });
    this.#served.add(peer);
  }

  /** A message that cannot be read, of a node with another version say, costs its connection. */
  #take(peer: PeerSocket, hosting: Hosting | undefined, body: Uint8Array): void {
    try {
      hosting?.take(body);
    } catch (error) {
      if (!(error instanceof DamagedMessage)) throw error;
      this.#warn("a node said what cannot be read; its connection is closed", {
        error: error.message,
      });
      peer.close();
    }
  }

  #answer(
    peer: PeerSocket,
    hostings: Map<number, Hosting>,
    channel: number,
    body: Uint8Array,
  ): void {
    const shard = Buffer.from(body).readUInt32LE(0);
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

  #warn(text: string, fields: Readonly<Record<string, unknown>>): void {
    this.#warnings.warn(text, fields);
  }
}

/** The conversations of this node with the shards of one other. */
class PeerCalls {
  readonly #peer: PeerSocket;
  readonly #callers: Map<number, Caller> = new Map();
  /** Shards that are to be opened when the connection is. */
  readonly #early: Map<number, number> = new Map();
  #channels = 0;

  constructor(
    address: string,
    parts: Pick<PeersParts, "secret" | "clock">,
    onClose: (isStranger: boolean) => void,
  ) {
    const { secret, clock } = parts;
    this.#peer = new PeerSocket({
      secret,
      clock,
      socket: connect(hostAndPort(address)),
      isCaller: true,
      onOpen: () => {
        for (const [channel, shard] of this.#early) this.#begin(channel, shard);
        this.#early.clear();
      },
      onFrame: (kind, channel, body) => {
        const caller = this.#callers.get(channel);
        if (kind === kinds.message) caller?.hear(body);
        else {
          this.#callers.delete(channel);
          caller?.end();
        }
      },
      onClose: (isStranger) => {
        onClose(isStranger);
        const callers = [...this.#callers.values()];
        this.#callers.clear();
        for (const caller of callers) caller.end();
      },
    });
  }

  open(shard: number, caller: Caller): Hosting {
    this.#channels += 1;
    const channel = this.#channels;
    this.#callers.set(channel, caller);
    if (this.#peer.isOpen) this.#begin(channel, shard);
    else this.#early.set(channel, shard);
    return {
      take: (message) => this.#peer.send(kinds.message, channel, message),
      close: () => {
        this.#early.delete(channel);
        if (this.#callers.delete(channel)) this.#peer.send(kinds.end, channel, nothing);
      },
    };
  }

  close(): void {
    this.#peer.close();
  }

  #begin(channel: number, shard: number): void {
    const body = Buffer.alloc(4);
    body.writeUInt32LE(shard, 0);
    this.#peer.send(kinds.open, channel, body);
  }
}

/** Of `host:port`, or `[address]:port`. */
export function hostAndPort(address: string): { readonly host: string; readonly port: number } {
  const at = address.lastIndexOf(":");
  const host = address.slice(0, at).replace(/^\[(.*)\]$/, "$1");
  return { host, port: Number(address.slice(at + 1)) };
}
