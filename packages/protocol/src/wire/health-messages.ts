/**
 * Generated from proto/grpc/health/v1/health.proto by scripts/gen-codecs.ts. To change it, change that file and run
 * `npm run gen`.
 */
import type { WireReader } from "./reader.ts";
import type { WireWriter } from "./writer.ts";

export type HealthCheckRequest = ReturnType<typeof newHealthCheckRequest>;

export function newHealthCheckRequest() {
  return {
    /** Empty asks for the server as a whole. */
    service: "",
  };
}

export function readHealthCheckRequest(reader: WireReader): HealthCheckRequest {
  const message = newHealthCheckRequest();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.service = reader.string();
    else reader.skip(tag);
  }
  return message;
}

export const healthCheckResponseServingStatus = {
  UNKNOWN: 0,
  SERVING: 1,
  NOT_SERVING: 2,
  SERVICE_UNKNOWN: 3,
} as const;

export interface HealthCheckResponse {
  status: number;
}

export function writeHealthCheckResponse(message: HealthCheckResponse, writer: WireWriter): void {
  writer.int32Field(8, message.status);
}
