/**
 * One session with a server over any transport: a gRPC call, requests over HTTP, or a server in the same process.
 * Both sides send messages of the stream protocol. A session ends once.
 */
import type { CodeqError } from "../codeq-error.ts";

export interface Session<Event> {
  /** Sends at the end of this turn of the event loop. False means back-pressure: wait for `drained`. */
  send(event: Event): boolean;
  /** Sends now instead of at the end of the turn. */
  flush(): void;
  /** Half closes the session: the server still answers what it was asked, then the session ends. */
  finish(): void;
  /** Ends the session immediately. The listener is not called again. */
  cut(): void;
  /** Whether the session keeps the process alive. */
  keepAwake(isOn: boolean): void;
}

export interface SessionListener<Reply> {
  reply(reply: Reply): void;
  /** After `send` returned false: there is room again. */
  drained(): void;
  ended(end: SessionEnd): void;
}

export interface SessionEnd {
  /**
   * `over`: the server answered everything and ended the session. `lost`: it is unknown whether the last
   * messages arrived. `refused`: the server does not accept this caller.
   */
  readonly how: "over" | "lost" | "refused";
  readonly error: CodeqError;
}

export interface OpenOptions {
  readonly token: string;
  /** Whether the session has to use the transport of the last one, because leases can only be ended there. */
  readonly stay: boolean;
}

/** Rejects when no session can be opened. */
export type OpenSession<Event, Reply> = (
  options: OpenOptions,
  listener: SessionListener<Reply>,
) => Promise<Session<Event>>;
