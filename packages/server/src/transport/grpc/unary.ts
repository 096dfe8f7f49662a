/** Methods with one request. Anybody may call them, so they wait for the request only for a short time. */
import { decodeMessage, type WireRead } from "@codeq/protocol/wire";
import type { Clock } from "../../clock.ts";
import type { GrpcHandler } from "./grpc-server.ts";
import type { GrpcStream } from "./grpc-stream.ts";

const requestMsMax = 10_000;

/** Calls `run` with the request once the client has finished; `run` sends the answers and ends. */
export function withOneRequest<T>(
  clock: Clock,
  read: WireRead<T>,
  run: (request: T, stream: GrpcStream) => void,
): GrpcHandler {
  return (stream) => {
    let request: { readonly message: T } | undefined;
    const cancel = clock.after(requestMsMax, () =>
      stream.end("DEADLINE_EXCEEDED", "no request in time"),
    );
    stream.onClosed(cancel);
    stream.onMessage((bytes) => {
      if (request === undefined) request = { message: decodeMessage(read, bytes) };
      else stream.end("INTERNAL", "more than one request message");
    });
    stream.onHalfClose(() => {
      cancel();
      if (request === undefined) stream.end("INTERNAL", "the request message is missing");
      else run(request.message, stream);
    });
  };
}
