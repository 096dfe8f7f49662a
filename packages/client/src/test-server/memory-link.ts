/**
 * A call between a client and a server in the same process. Messages become bytes and are read again
 * as on any connection, one turn of the event loop later; nothing is lost unless a test asks for it.
 */
import { decodeMessage, encodeMessage, type WireWrite } from "@codeq/protocol/wire";
import {
  type CloseReason,
  type GrpcStatus,
  type GrpcStream,
  grpcCodes,
  type InProcessServer,
} from "@codeq/server";
import { CodeqError } from "../codeq-error.ts";
import type { Session, SessionEnd, SessionListener } from "../connection/session.ts";
import { endOfCall, type StreamMethod } from "../grpc/grpc-session.ts";

interface MemoryLinkParts<Event, Reply extends { readonly case: unknown }> {
  readonly server: InProcessServer;
  readonly method: StreamMethod<Event, Reply>;
  readonly listener: SessionListener<Reply>;
  /** Carries something over at a later turn. */
  readonly carry: (run: () => void) => void;
  /** Whether this reply is lost, and the connection with it. */
  readonly isLost: (reply: Reply) => boolean;
}

export class MemoryLink<Event, Reply extends { readonly case: unknown }> implements Session<Event> {
  readonly #parts: MemoryLinkParts<Event, Reply>;
  readonly #server: ServerEnd;
  #isOver = false;

  constructor(parts: MemoryLinkParts<Event, Reply>) {
    this.#parts = parts;
    this.#server = new ServerEnd(parts.method.path, {
      message: (bytes) => this.#later(() => this.#arrived(bytes)),
      ended: (end) => this.#later(() => this.#ended(end)),
    });
    this.#later(() => parts.server.serve(this.#server));
  }

  send(event: Event): boolean {
    const bytes = encodeMessage(this.#parts.method.write, event);
    this.#later(() => this.#server.receive(bytes));
    return true;
  }

  flush(): void {}

  finish(): void {
    this.#later(() => this.#server.halfClosed());
  }

  cut(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#parts.carry(() => this.#server.closed("disconnected"));
  }

  /** There is nothing that a process could stay alive for. */
  keepAwake(): void {}

  /** What was on its way when the link was cut arrives nowhere. */
  #later(run: () => void): void {
    this.#parts.carry(() => {
      if (!this.#isOver) run();
    });
  }

  #arrived(bytes: Buffer): void {
    const reply = decodeMessage(this.#parts.method.read, bytes);
    if (!this.#parts.isLost(reply)) {
      this.#parts.listener.reply(reply);
      return;
    }
    const error = new CodeqError("unavailable", "the connection was lost, as the test asked for");
    this.#ended({ how: "lost", error });
  }

  #ended(end: SessionEnd): void {
    this.cut();
    this.#parts.listener.ended(end);
  }
}

interface ClientEnd {
  readonly message: (bytes: Buffer) => void;
  readonly ended: (end: SessionEnd) => void;
}

const nothing = (): void => {};

/** The call as the server sees it. */
class ServerEnd implements GrpcStream {
  readonly path: string;
  readonly metadata = {};
  readonly peer = "in-process";
  readonly deadlineMs = undefined;
  readonly pendingBytes = 0;
  readonly #client: ClientEnd;
  readonly #inbox: Buffer[] = [];
  #isPaused = false;
  #isOver = false;
  #isHalfClosed = false;
  #onMessage: (bytes: Buffer) => void = nothing;
  #onHalfClose: () => void = nothing;
  #onClosed: (reason: CloseReason) => void = nothing;

  constructor(path: string, client: ClientEnd) {
    this.path = path;
    this.#client = client;
  }

  onMessage(run: (bytes: Buffer) => void): void {
    this.#onMessage = run;
  }

  onHalfClose(run: () => void): void {
    this.#onHalfClose = run;
  }

  onClosed(run: (reason: CloseReason) => void): void {
    this.#onClosed = run;
  }

  /** A client in the same process is never slow. */
  onDrain(): void {}

  /** The test ends before its server does. */
  onGoingAway(): void {}

  /** There is no connection that could be given up. */
  holdConnection(): void {}

  /** Messages come whole. */
  readonly cutForRoom = (): void => {};

  send(bytes: Uint8Array): boolean {
    if (this.#isOver) return false;
    this.#client.message(Buffer.from(bytes));
    return true;
  }

  sendMessage<T>(write: WireWrite<T>, message: T, unsent?: () => void): boolean {
    if (this.#isOver) unsent?.();
    return this.send(encodeMessage(write, message));
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    queueMicrotask(() => this.#deliver());
  }

  end(status: GrpcStatus, message: string = ""): void {
    if (this.#isOver) return;
    const trailers = { "grpc-status": String(grpcCodes[status]), "grpc-message": message };
    const end = endOfCall(trailers);
    if (end !== undefined) this.#client.ended(end);
    this.closed("ended");
  }

  receive(bytes: Buffer): void {
    this.#inbox.push(bytes);
    this.#deliver();
  }

  halfClosed(): void {
    this.#isHalfClosed = true;
    this.#deliver();
  }

  closed(reason: CloseReason): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#onClosed(reason);
  }

  #deliver(): void {
    while (!this.#isPaused && !this.#isOver) {
      const bytes = this.#inbox.shift();
      if (bytes === undefined) break;
      this.#onMessage(bytes);
    }
    if (!this.#isHalfClosed || this.#isPaused || this.#isOver || this.#inbox.length > 0) return;
    this.#isHalfClosed = false;
    this.#onHalfClose();
  }
}
