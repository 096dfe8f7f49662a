/** Parses the headers of a call, before any of its messages is read. */
import type { IncomingHttpHeaders } from "node:http2";
import type { Metadata } from "./grpc-stream.ts";
import type { GrpcEnd } from "./status.ts";

export type RequestHead =
  | { readonly kind: "call"; readonly path: string; readonly timeoutMs: number | undefined }
  /** Not gRPC: answered with an HTTP status, as the protocol requires. */
  | { readonly kind: "not_grpc"; readonly httpStatus: number }
  | { readonly kind: "refused"; readonly end: GrpcEnd };

/** application/grpc, optionally with a codec or with parameters. */
const contentType = /^application\/grpc([+;].*)?$/i;
const timeout = /^(\d{1,8})([HMSmun])$/;
const unitMs: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};
/** The longest delay of a timer; longer deadlines are ignored. */
const timeoutMsMax = 2 ** 31 - 1;

export function readRequestHead(headers: IncomingHttpHeaders): RequestHead {
  if (headers[":method"] !== "POST") return { kind: "not_grpc", httpStatus: 405 };
  if (!contentType.test(headers["content-type"] ?? "")) {
    return { kind: "not_grpc", httpStatus: 415 };
  }
  const path = headers[":path"] ?? "";
  const text = headers["grpc-timeout"];
  if (text === undefined) return { kind: "call", path, timeoutMs: undefined };
  const timeoutMs = typeof text === "string" ? parseTimeout(text) : undefined;
  if (timeoutMs === undefined) {
    return { kind: "refused", end: { status: "INTERNAL", message: "malformed grpc-timeout" } };
  }
  return { kind: "call", path, timeoutMs: timeoutMs > timeoutMsMax ? undefined : timeoutMs };
}

export function metadataOf(headers: IncomingHttpHeaders): Metadata {
  return {
    userAgent: headers["user-agent"],
    requestId: singleText(headers["x-request-id"]),
    traceParent: singleText(headers["traceparent"]),
    traceState: singleText(headers["tracestate"]),
    encoding: singleText(headers["grpc-encoding"]),
  };
}

function singleText(value: string | string[] | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** Whole milliseconds, rounded up; undefined when the text is not a timeout. */
export function parseTimeout(text: string): number | undefined {
  const [, digits, unit = ""] = timeout.exec(text) ?? [];
  const factor = unitMs[unit];
  return digits === undefined || factor === undefined
    ? undefined
    : Math.ceil(Number(digits) * factor);
}
