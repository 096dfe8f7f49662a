export type { CloseReason, GrpcStream } from "./edge/grpc/grpc-stream.ts";
export { type GrpcStatus, grpcCodes } from "./edge/grpc/status.ts";
export { type Core, type CoreParts, composeCore, composeHttp } from "./start/compose.ts";
export {
  type InProcessCounts,
  type InProcessOptions,
  InProcessServer,
  openInProcess,
} from "./start/in-process.ts";
