/** The other end of a connection, with what the server knows about it beyond HTTP/2. */
import type { ServerHttp2Session } from "node:http2";
import type { Connection } from "../connections.ts";
import type { WatchedConnection } from "./flood-watch.ts";

/** A call on the connection, as far as this needs to know. */
interface PeerCall {
  /** Bytes that have arrived and that nobody has read. */
  readonly unreadBytes: number;
}

export class Peer implements WatchedConnection {
  /** A broken connection has forgotten it. */
  readonly address: string;
  /** Undefined when it was closed before it was known. */
  readonly connection: Connection | undefined;
  readonly calls: Set<PeerCall> = new Set();
  readonly #session: ServerHttp2Session;
  readonly #onFlood: (address: string) => void;
  #readBytes = 0;

  constructor(
    session: ServerHttp2Session,
    connection: Connection | undefined,
    onFlood: (address: string) => void,
  ) {
    this.address = addressOf(session);
    this.connection = connection;
    this.#session = session;
    this.#onFlood = onFlood;
  }

  /** So much of a call was read. */
  countRead(bytes: number): void {
    this.#readBytes += bytes;
  }

  /** Over TLS these are the bytes inside of it. */
  get bytesRead(): number {
    return this.#session.destroyed ? 0 : this.#session.socket.bytesRead;
  }

  get messageBytes(): number {
    let bytes = this.#readBytes;
    for (const { unreadBytes } of this.calls) bytes += unreadBytes;
    return bytes;
  }

  cut(): void {
    this.#onFlood(this.address);
    this.#session.destroy();
  }
}

function addressOf({ socket }: ServerHttp2Session): string {
  const { remoteAddress = "", remotePort = 0 } = socket;
  return remoteAddress.includes(":")
    ? `[${remoteAddress}]:${remotePort}`
    : `${remoteAddress}:${remotePort}`;
}
