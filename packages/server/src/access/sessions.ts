/**
 * Sessions of browsers. A session is a cookie that contains the caller's token, encrypted with a key that
 * only this server has. It is valid only together with a second secret that pages of other sites can neither
 * read nor send. Nothing is stored: a server with the same secret accepts the sessions of another. Each call
 * is authorised by the token in the session, so a revoked token ends the session.
 */
import { createCipheriv, createDecipheriv, hash, timingSafeEqual } from "node:crypto";
import type { Clock } from "../clock.ts";

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
const endedMax = 10_000;
const algorithm = "aes-256-gcm";
const ivBytes = 12;
const tagBytes = 16;

export class Sessions {
  readonly #key: Buffer;
  readonly #clock: Clock;
  readonly #randomBytes: (into: Uint8Array) => void;
  /** By their second secret. */
  readonly #ended = new Map<string, number>();

  constructor(parts: {
    /** The same on all servers that share sessions; drawn when it is empty. */
    readonly secret: string;
    readonly clock: Clock;
    readonly randomBytes: (into: Uint8Array) => void;
  }) {
    this.#clock = parts.clock;
    this.#randomBytes = parts.randomBytes;
    const secret = parts.secret === "" ? this.#draw(32) : parts.secret;
    this.#key = Buffer.from(hash("sha256", `codeq session\0${secret}`, "hex"), "hex");
  }

  /** Undefined when the token is too long for a cookie. */
  open(token: string): OpenedSession | undefined {
    if (token.length > sessionTokenCharsMax) return undefined;
    const csrf = this.#draw(24);
    const expiresMs = this.#clock.nowMs() + sessionMs;
    return { token, csrf, expiresMs, cookie: this.#seal({ token, csrf, expiresMs }) };
  }

  read(cookie: string): Session | undefined {
    const session = this.#unseal(cookie);
    if (session === undefined || session.expiresMs <= this.#clock.nowMs()) return undefined;
    return this.#ended.has(session.csrf) ? undefined : session;
  }

  /** The token of a call that has both the cookie and the second secret. */
  tokenOf(cookie: string, csrf: string): string | undefined {
    const session = this.read(cookie);
    return session !== undefined && isSame(session.csrf, csrf) ? session.token : undefined;
  }

  /** Also for copies of its cookie. */
  end({ csrf, expiresMs }: Session): void {
    const nowMs = this.#clock.nowMs();
    for (const [each, untilMs] of this.#ended) {
      if (untilMs > nowMs && this.#ended.size < endedMax) break;
      this.#ended.delete(each);
    }
    this.#ended.set(csrf, expiresMs);
  }

  #draw(bytes: number): string {
    const drawn = Buffer.alloc(bytes);
    this.#randomBytes(drawn);
    return drawn.toString("base64url");
  }

  #seal(session: Session): string {
    const iv = Buffer.alloc(ivBytes);
    this.#randomBytes(iv);
    const cipher = createCipheriv(algorithm, this.#key, iv);
    const text = JSON.stringify([session.token, session.csrf, session.expiresMs]);
    const sealed = [iv, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()];
    return Buffer.concat(sealed).toString("base64url");
  }

  #unseal(cookie: string): Session | undefined {
    const bytes = Buffer.from(cookie, "base64url");
    if (bytes.length <= ivBytes + tagBytes) return undefined;
    try {
      const decipher = createDecipheriv(algorithm, this.#key, bytes.subarray(0, ivBytes));
      decipher.setAuthTag(bytes.subarray(-tagBytes));
      const sealed = bytes.subarray(ivBytes, -tagBytes);
      const text = Buffer.concat([decipher.update(sealed), decipher.final()]).toString("utf8");
      const [token, csrf, expiresMs] = JSON.parse(text) as [string, string, number];
      return { token, csrf, expiresMs };
    } catch {
      // Not sealed by this server, or changed since: it is no session.
      return undefined;
    }
  }
}

function isSame(one: string, other: string): boolean {
  const bytes = (text: string): Buffer => Buffer.from(hash("sha256", text, "hex"));
  return timingSafeEqual(bytes(one), bytes(other));
}
