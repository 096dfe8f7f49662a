/**
 * A connection over HTTP/2, with or without TLS, that notices when the other end is gone: a ping that
 * is not answered in time ends it.
 */
import { type ClientHttp2Session, connect, type SecureClientSessionOptions } from "node:http2";
import type { Clock } from "../clock.ts";
import { CodeqError, messageOf } from "../codeq-error.ts";

/** What a connection with TLS may be given; `node:tls` says what each means. */
export type TlsOptions = Pick<
  SecureClientSessionOptions,
  "ca" | "cert" | "key" | "passphrase" | "servername" | "rejectUnauthorized"
>;

export interface Http2ConnectionOptions {
  /** `http://host:port`, or `https://` for TLS. */
  readonly authority: string;
  readonly tls: TlsOptions;
  readonly clock: Clock;
}

const connectMsMax = 5_000;
const pingEveryMs = 10_000;
const pingMsMax = 10_000;
/** What the server may send ahead, on the one call that a connection carries. */
const windowBytes = 8 * 1024 * 1024;

/** Resolves once the other end has proved to speak HTTP/2. */
export function openHttp2({
  authority,
  tls,
  clock,
}: Http2ConnectionOptions): Promise<ClientHttp2Session> {
  return new Promise((resolve, reject) => {
    const session = connect(authority, {
      ...tls,
      settings: { enablePush: false, initialWindowSize: windowBytes },
    });
    const fail = (cause: unknown): void => {
      cancel();
      session.destroy();
      const why = messageOf(cause);
      reject(new CodeqError("unavailable", `cannot connect to ${authority}: ${why}`, { cause }));
    };
    const cancel = clock.after(connectMsMax, () => fail("no answer"));
    session.on("error", fail);
    session.once("close", () => fail("the connection was closed"));
    session.once("remoteSettings", () => {
      cancel();
      session.setLocalWindowSize(windowBytes);
      resolve(session);
    });
  });
}

/** Pings for as long as the connection stands; `onDead` is called when there was no answer. */
export function watchConnection(
  session: ClientHttp2Session,
  clock: Clock,
  onDead: () => void,
): void {
  let cancel = (): void => {};
  const ping = (): void => {
    if (session.destroyed || session.closed) return;
    cancel = clock.after(pingMsMax, onDead, { background: true });
    session.ping((error) => {
      if (error === null) rest();
    });
  };
  const rest = (): void => {
    cancel();
    cancel = clock.after(pingEveryMs, ping, { background: true });
  };
  session.once("close", () => cancel());
  rest();
}
