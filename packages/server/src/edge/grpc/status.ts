/** How a gRPC call ends: the codes, and the headers that carry them. */
import type { OutgoingHttpHeaders } from "node:http2";

export const grpcCodes = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  OUT_OF_RANGE: 11,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  DATA_LOSS: 15,
  UNAUTHENTICATED: 16,
} as const;

export type GrpcStatus = keyof typeof grpcCodes;

/** A status and the text that goes with it; an OK has none. */
export interface GrpcEnd {
  readonly status: GrpcStatus;
  readonly message: string;
}

/** Clients refuse headers of more than 8 KiB, and a character can take nine bytes. */
const messageCharsMax = 512;

export function trailersOf({ status, message }: GrpcEnd): OutgoingHttpHeaders {
  const trailers: OutgoingHttpHeaders = { "grpc-status": String(grpcCodes[status]) };
  if (message !== "") trailers["grpc-message"] = encodeGrpcMessage(message);
  return trailers;
}

/** Keeps visible ASCII; encodes the percent sign and all other bytes of the UTF-8 text as %XX. */
export function encodeGrpcMessage(message: string): string {
  const text = message.length > messageCharsMax ? `${cut(message)}...` : message;
  if (/^[\x20-\x24\x26-\x7e]*$/.test(text)) return text;
  let encoded = "";
  for (const byte of Buffer.from(text, "utf8")) {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25;
    encoded += isPlain ? String.fromCharCode(byte) : `%${hex(byte)}`;
  }
  return encoded;
}

/** Truncates without splitting a surrogate pair, which would become a replacement character. */
function cut(message: string): string {
  return message.slice(0, messageCharsMax).replace(/[\ud800-\udbff]$/, "");
}

function hex(byte: number): string {
  return byte.toString(16).toUpperCase().padStart(2, "0");
}
