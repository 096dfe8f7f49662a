/**
 * Detects dead connections. A ping is sent at every interval; a connection is closed with all its calls when
 * the ping is not answered in time, or when a new connection does not speak HTTP/2 in that time.
 */
import type { Http2Session } from "node:http2";
import type { Clock } from "../../clock.ts";

export interface KeepaliveOptions {
  /** Zero sends no pings. */
  readonly intervalMs: number;
  readonly timeoutMs: number;
}

export function watchConnection(
  session: Http2Session,
  { intervalMs, timeoutMs }: KeepaliveOptions,
  clock: Clock,
): void {
  const giveUp = () => session.destroy();
  let cancel = clock.after(timeoutMs, giveUp);
  const rest = () => {
    cancel();
    cancel = intervalMs > 0 ? clock.after(intervalMs, ping) : () => {};
  };
  const ping = () => {
    if (session.destroyed) return;
    cancel = clock.after(timeoutMs, giveUp);
    session.ping((error) => {
      if (error === null) rest();
    });
  };
  // The settings are the first thing that either side has to send.
  session.once("remoteSettings", rest);
  session.once("close", () => cancel());
}
