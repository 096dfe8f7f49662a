/**
 * Sessions of browsers. A session is a cookie that contains the caller's token, encrypted with a key that
 * only this server has. It is valid only together with a second secret that pages of other sites can neither
 * read nor send. Nothing is stored: a server with the same secret accepts the sessions of another. Each call
 * is authorised by the token in the session, so a revoked token ends the session.
 */
import type { Clock } from "../../core/clock.ts";
import type { RandomBytes } from "../../core/task-ids.ts";
import { drawText, Seal } from "../access/seal.ts";
import { isSameText } from "../access/token-provider.ts";

export interface Session {
  readonly token: string;
  /** What every call has to say beside the cookie. */
  readonly csrf: string;
  readonly expiresMs: number;
}

export interface OpenedSession extends Session {
  readonly cookie: string;
}

/** Browsers keep cookies of up to 4,096 bytes, and sealing makes a token longer. */
export const sessionTokenCharsMax = 2800;
export const sessionMs: number = 12 * 60 * 60 * 1000;
/** Sessions that were ended early and are remembered until they would have ended anyway. */
export const endedMax = 100_000;

export class Sessions {
  readonly #seal: Seal;
  readonly #clock: Clock;
  readonly #randomBytes: RandomBytes;
  /** By their second secret. */
  readonly #ended = new Map<string, number>();
  /** Sessions that expire by then have ended, because an ended one among them may be forgotten. */
  #endedUntilMs = 0;

  constructor(parts: {
    /** The same on all servers that share sessions. */
    readonly secret: string;
    readonly clock: Clock;
    readonly randomBytes: RandomBytes;
  }) {
    this.#clock = parts.clock;
    this.#randomBytes = parts.randomBytes;
    this.#seal = new Seal({ ...parts, purpose: "session" });
  }

  /** Undefined when the token is too long for a cookie. */
  open(token: string): OpenedSession | undefined {
    if (token.length > sessionTokenCharsMax) return undefined;
    const csrf = drawText(this.#randomBytes, 24);
    const expiresMs = this.#clock.nowMs() + sessionMs;
    return {
      token,
      csrf,
      expiresMs,
      cookie: this.#seal.close(JSON.stringify([token, csrf, expiresMs])),
    };
  }

  read(cookie: string): Session | undefined {
    const text = this.#seal.open(cookie);
    if (text === undefined) return undefined;
    const [token, csrf, expiresMs] = JSON.parse(text) as [string, string, number];
    if (expiresMs <= Math.max(this.#clock.nowMs(), this.#endedUntilMs)) return undefined;
    if (this.#ended.has(csrf)) return undefined;
    return { token, csrf, expiresMs };
  }

  /** The token of a call that has both the cookie and the second secret. */
  tokenOf(cookie: string, csrf: string): string | undefined {
    const session = this.read(cookie);
    return session !== undefined && isSameText(session.csrf, csrf) ? session.token : undefined;
  }

  /** Ends the session, also for copies of its cookie. */
  end({ csrf, expiresMs }: Session): void {
    const nowMs = this.#clock.nowMs();
    for (const [each, untilMs] of this.#ended) {
      if (untilMs > nowMs && this.#ended.size < endedMax) break;
      this.#ended.delete(each);
      if (untilMs > nowMs) this.#endedUntilMs = Math.max(this.#endedUntilMs, untilMs);
    }
    this.#ended.set(csrf, expiresMs);
  }
}
