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

interface Http2ConnectionOptions {
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
    const http2 = connect(authority, {
      ...tls,
      settings: { enablePush: false, initialWindowSize: windowBytes },
    });
    const fail = (cause: unknown): void => {
      cancel();
      http2.destroy();
      const why = messageOf(cause);
      reject(new CodeqError("unavailable", `cannot connect to ${authority}: ${why}`, { cause }));
    };
    const cancel = clock.after(connectMsMax, () => fail("no answer"));
    http2.on("error", fail);
    http2.once("close", () => fail("the connection was closed"));
    http2.once("remoteSettings", () => {
      cancel();
      http2.setLocalWindowSize(windowBytes);
      resolve(http2);
    });
  });
}

/** Pings for as long as the connection stands; `onDead` is called when there was no answer. */
export function watchConnection(http2: ClientHttp2Session, clock: Clock, onDead: () => void): void {
  let cancel = (): void => {};
  const ping = (): void => {
    if (http2.destroyed || http2.closed) return;
    cancel = clock.after(pingMsMax, onDead, { background: true });
    http2.ping((error) => {
      if (error === null) rest();
    });
  };
  const rest = (): void => {
    cancel();
    cancel = clock.after(pingEveryMs, ping, { background: true });
  };
  http2.once("close", () => cancel());
  rest();
}
