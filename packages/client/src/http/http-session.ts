/**
 * What sessions over HTTP have in common: every event becomes a request, and the first that does
 * not get through ends the session, as a connection that breaks would. Hello is a request for a
 * task that cannot be, which shows whether the server is there and knows the token.
 */
import { asCodeqError, CodeqError } from "../codeq-error.ts";
import type { Session, SessionListener } from "../connection/session.ts";
import type { HttpApi, HttpRequest } from "./http-api.ts";

type AskServer = (request: Omit<HttpRequest, "token" | "signal">) => Promise<unknown>;

interface HttpSessionParts<Event, Reply> {
  readonly api: HttpApi;
  readonly token: string;
  readonly listener: SessionListener<Reply>;
  /** Undefined when it is not a Hello. */
  readonly helloAckOf: (event: Event) => Reply | undefined;
  /** Asks, and gives the answers as they come. Throws when the server could not be asked. */
  readonly handle: (event: Event, talk: Talk<Reply>) => Promise<void>;
}

/** What the handling of an event may do. */
export interface Talk<Reply> {
  readonly ask: AskServer;
  readonly reply: (reply: Reply) => void;
  /** Aborted when there is nothing more to say; what only waits for news ends then. */
  readonly finishing: AbortSignal;
}

interface Refused {
  readonly error: string;
  readonly code: string;
}

export function isRefused(answer: object): answer is Refused {
  return "error" in answer;
}

/** The answer to a request, or what stands for it when the server refuses the request. */
export async function orRefused<T, R>(
  asked: Promise<T>,
  refused: (error: Refused) => R,
): Promise<T | R> {
  try {
    return await asked;
  } catch (thrown) {
    const { code, message } = asCodeqError(thrown, "unavailable");
    if (code === "unavailable") throw thrown;
    return refused({ error: message, code });
  }
}

export class HttpSession<Event, Reply> implements Session<Event> {
  readonly #parts: HttpSessionParts<Event, Reply>;
  readonly #cut = new AbortController();
  readonly #finishing = new AbortController();
  #underWay = 0;

  constructor(parts: HttpSessionParts<Event, Reply>) {
    this.#parts = parts;
  }

  send(event: Event): boolean {
    this.#underWay += 1;
    void this.#carryOut(event);
    return true;
  }

  /** Nothing is put off. */
  flush(): void {}

  finish(): void {
    this.#finishing.abort();
    this.#endWhenDone();
  }

  cut(): void {
    this.#cut.abort();
    this.#finishing.abort();
  }

  /** Requests keep the process alive by themselves, and nothing is open between them. */
  keepAwake(): void {}

  async #carryOut(event: Event): Promise<void> {
    try {
      const greeting = this.#parts.helloAckOf(event);
      if (greeting === undefined) await this.#handle(event);
      else await this.#greet(greeting);
    } catch (error) {
      this.#broke(asCodeqError(error, "unavailable"));
    }
    this.#underWay -= 1;
    this.#endWhenDone();
  }

  async #greet(greeting: Reply): Promise<void> {
    try {
      await this.#ask({ path: "/tasks/hello" });
    } catch (error) {
      if (!(error instanceof CodeqError) || error.code !== "not_found") throw error;
    }
    this.#reply(greeting);
  }

  #handle(event: Event): Promise<void> {
    return this.#parts.handle(event, {
      ask: (request) => this.#ask(request),
      reply: (reply) => this.#reply(reply),
      finishing: this.#finishing.signal,
    });
  }

  #ask(request: Omit<HttpRequest, "token" | "signal">): Promise<unknown> {
    const { api, token } = this.#parts;
    const { waitMs = 0 } = request;
    const signal = waitMs > 0 ? this.#finishing.signal : this.#cut.signal;
    return api.ask({ ...request, token, signal });
  }

  #reply(reply: Reply): void {
    if (!this.#cut.signal.aborted) this.#parts.listener.reply(reply);
  }

  #broke(error: CodeqError): void {
    if (this.#cut.signal.aborted) return;
    // A request that only waited for news was aborted.
    if (this.#finishing.signal.aborted && error.code === "unavailable") return;
    this.cut();
    this.#parts.listener.ended({ how: error.retryable ? "lost" : "refused", error });
  }

  #endWhenDone(): void {
    if (!this.#finishing.signal.aborted || this.#cut.signal.aborted || this.#underWay > 0) return;
    this.cut();
    const error = new CodeqError("unavailable", "the session is over");
    this.#parts.listener.ended({ how: "over", error });
  }
}
