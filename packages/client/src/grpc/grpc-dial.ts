/** Opens a stream of the server over gRPC. */
import type { Conversation, ConversationListener } from "../conversation.ts";
import type { Runtime } from "../runtime.ts";
import { GrpcConversation, type StreamMethod } from "./grpc-conversation.ts";
import { openHttp2, type TlsOptions, watchConnection } from "./http2-connection.ts";

export interface GrpcDialOptions<Event, Reply> {
  /** `http://host:port`, or `https://` for TLS. */
  readonly authority: string;
  readonly tls: TlsOptions;
  readonly method: StreamMethod<Event, Reply>;
  readonly runtime: Runtime;
}

/** Rejects with an error when nothing there speaks HTTP/2. */
export async function dialGrpc<Event, Reply>(
  { authority, tls, method, runtime }: GrpcDialOptions<Event, Reply>,
  listener: ConversationListener<Reply>,
): Promise<Conversation<Event>> {
  const { clock } = runtime;
  const session = await openHttp2({ authority, tls, clock });
  const conversation = new GrpcConversation(session, method, listener);
  watchConnection(session, clock, () => conversation.fail("the server does not answer"));
  return conversation;
}
