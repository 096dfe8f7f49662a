/** The messages of the two streams and of the standard gRPC services, and how bytes become them. */
export { type FileDescriptor, fileDescriptors } from "./file-descriptors.ts";
export { type FrameFault, FrameReader } from "./framing.ts";
export * as health from "./health-messages.ts";
export * as producer from "./producer-messages.ts";
export { decodeMessage, textOf, WireError, type WireRead, WireReader } from "./reader.ts";
export * as reflection from "./reflection-messages.ts";
export { SendQueue, type SendSink, SendTurn } from "./send-queue.ts";
export * as worker from "./worker-messages.ts";
export {
  encodeMessage,
  type WireBytes,
  type WireUint64,
  type WireWrite,
  WireWriter,
} from "./writer.ts";
