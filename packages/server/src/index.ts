export { type Core, type CoreParts, composeCore, composeHttp } from "./start/compose.ts";
export {
  type InProcessCounts,
  type InProcessOptions,
  InProcessServer,
  openInProcess,
} from "./start/in-process.ts";
export type { CloseReason, GrpcStream } from "./transport/grpc/grpc-stream.ts";
export { type GrpcStatus, grpcCodes } from "./transport/grpc/status.ts";
