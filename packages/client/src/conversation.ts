/**
 * One session with a server, whatever carries it: a gRPC call, requests over HTTP, or a server in the
 * same process. Both sides send messages of the stream protocol, and it ends once.
 */
import type { CodeqError } from "./codeq-error.ts";

export interface Conversation<Event> {
  /** Sends at the end of this turn. False says that the other side does not keep up. */
  send(event: Event): boolean;
  /** Sends now what was put off to the end of the turn. */
  flush(): void;
  /** There is nothing more to say; what was asked is still answered, then it ends. */
  finish(): void;
  /** Gives it up at once. The listener hears nothing more. */
  cut(): void;
  /** Whether the process stays alive for it. */
  keepAwake(isOn: boolean): void;
}

export interface ConversationListener<Reply> {
  reply(reply: Reply): void;
  /** After `send` returned false: there is room again. */
  drained(): void;
  ended(end: ConversationEnd): void;
}

export interface ConversationEnd {
  /**
   * `over`: the server finished what it was asked and said goodbye. `lost`: it is unknown
   * whether the last messages arrived. `refused`: the server does not want this caller.
   */
  readonly how: "over" | "lost" | "refused";
  readonly error: CodeqError;
}

export interface DialOptions {
  readonly token: string;
  /** Whether it has to go where the last one went: what was begun there can only be ended there. */
  readonly stay: boolean;
}

/** Opens a conversation; rejects when that is not possible. */
export type Dial<Event, Reply> = (
  options: DialOptions,
  listener: ConversationListener<Reply>,
) => Promise<Conversation<Event>>;
