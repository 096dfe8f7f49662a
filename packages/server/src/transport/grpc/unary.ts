/** Methods with one request. */
import { decodeMessage, type WireRead } from "@codeq/protocol/wire";
import type { GrpcHandler } from "./grpc-server.ts";
import type { GrpcStream } from "./grpc-stream.ts";

/** Calls `run` with the request once the client has finished; `run` sends the answers and ends. */
export function withOneRequest<T>(
  read: WireRead<T>,
  run: (request: T, stream: GrpcStream) => void,
): GrpcHandler {
  return (stream) => {
    let request: { readonly message: T } | undefined;
    stream.onMessage((bytes) => {
      if (request === undefined) request = { message: decodeMessage(read, bytes) };
      else stream.end("INTERNAL", "more than one request message");
    });
    stream.onHalfClose(() => {
      if (request === undefined) stream.end("INTERNAL", "the request message is missing");
      else run(request.message, stream);
    });
  };
}
