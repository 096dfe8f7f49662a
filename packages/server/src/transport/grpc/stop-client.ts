/**
 * Tells a client whose call has a status to stop sending. A reset overtakes everything that was not sent
 * yet, including the status, so it has to wait until the last frame of the call is sent. On a connection
 * that is not blocked, that takes two turns of the event loop.
 */
import { constants, type ServerHttp2Stream } from "node:http2";
import type { Clock } from "../../clock.ts";

const turnsMax = 4;
const recheckMs = 50;

export function stopClientAfterEnd(stream: ServerHttp2Stream, clock: Clock): void {
  let turns = 0;
  const check = () => {
    // Most clients have finished by themselves.
    if (stream.destroyed || stream.closed) return;
    turns += 1;
    if (stream.state.localClose === 1) stream.close(constants.NGHTTP2_NO_ERROR);
    else if (turns < turnsMax) setImmediate(check);
    else clock.after(recheckMs, check);
  };
  setImmediate(check);
}
