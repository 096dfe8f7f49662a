/**
 * The main thread's end of the connection to one front. It answers plain requests of the front like those of
 * its own thread, and hands the other connections to the HTTP server of this thread.
 */
import type { Server } from "node:http";
import type { Ends } from "../connections.ts";
import type { Listener } from "../http/calls.ts";
import type { AnsweredCaller, LocalAnswers, PlainReply } from "../http/plain-answers.ts";
import type { FoundRoute, PlainRoutes } from "../http/plain-request.ts";
import { RemoteSocket } from "./remote-socket.ts";
import { type DeskWord, type FrontWord, Outbox, type SentCall, said, told } from "./words.ts";

export interface FrontDeskParts {
  /** Serves what is no plain request; it does not listen itself. */
  readonly server: Server;
  readonly answers: LocalAnswers;
  readonly routes: PlainRoutes;
  readonly send: (words: readonly DeskWord[]) => void;
  readonly defer: (run: () => void) => void;
}

export class FrontDesk {
  readonly #parts: FrontDeskParts;
  readonly #out: Outbox<DeskWord>;
  /** Calls that are not answered yet. */
  readonly #calls = new Map<number, RemoteCaller>();
  readonly #sockets = new Map<number, RemoteSocket>();

  constructor(parts: FrontDeskParts) {
    this.#parts = parts;
    this.#out = new Outbox(parts);
  }

  take(words: readonly FrontWord[]): void {
    for (const word of words) {
      switch (word[0]) {
        case said.call:
          this.#answer(word[1], word[2]);
          break;
        case said.left:
          this.#calls.get(word[1])?.left();
          break;
        case said.opened:
          this.#open(word[1], word[2]);
          break;
        case said.data:
          this.#sockets.get(word[1])?.receive(word[2]);
          break;
        case said.ended:
          this.#sockets.get(word[1])?.receivedAll();
          break;
        case said.closed:
          this.#sockets.get(word[1])?.gone();
          break;
        case said.timedOut:
          this.#sockets.get(word[1])?.emit("timeout");
          break;
        case said.took:
          this.#sockets.get(word[1])?.took();
          break;
      }
    }
  }

  /** The front has ended, and with it all its connections. */
  gone(): void {
    for (const caller of this.#calls.values()) caller.left();
    for (const socket of this.#sockets.values()) socket.gone();
  }

  #answer(number: number, sent: SentCall): void {
    const { answers, routes } = this.#parts;
    const [path, body, address, authorization, role, requestId, traceparent, tracestate] = sent;
    const call = {
      path,
      found: routes.find(path) as FoundRoute,
      headers: {
        host: undefined,
        "content-length": undefined,
        authorization,
        "x-role": role,
        "x-request-id": requestId,
        traceparent,
        tracestate,
      },
      body: Buffer.from(body, "latin1"),
      address,
    };
    const caller = new RemoteCaller();
    this.#calls.set(number, caller);
    const reply = answers.answer(call, caller);
    if (reply instanceof Promise) void reply.then((known) => this.#reply(number, caller, known));
    else this.#reply(number, caller, reply);
  }

  #reply(number: number, caller: RemoteCaller, reply: PlainReply): void {
    this.#calls.delete(number);
    caller.over();
    this.#out.say([told.reply, number, reply.head, reply.text]);
  }

  #open(number: number, ends: Ends): void {
    const socket = new RemoteSocket({ number, ends, say: this.#out.say });
    this.#sockets.set(number, socket);
    socket.once("close", () => this.#sockets.delete(number));
    this.#parts.server.emit("connection", socket);
  }
}

/** Who waits in a front for the answer of a call. */
class RemoteCaller implements AnsweredCaller {
  #waiting: AbortController | undefined;
  #hasLeft = false;
  #onceOver: (() => void) | undefined;

  /** The front holds a connection for as long as a call is under way. */
  readonly known = (): void => {};

  readonly listen = (): Listener => {
    const controller = new AbortController();
    this.#waiting = controller;
    if (this.#hasLeft) controller.abort();
    return {
      signal: controller.signal,
      abort: () => controller.abort(),
      onceOver: (run) => {
        this.#onceOver = run;
      },
    };
  };

  left(): void {
    this.#hasLeft = true;
    this.#waiting?.abort();
  }

  over(): void {
    this.#onceOver?.();
  }
}
