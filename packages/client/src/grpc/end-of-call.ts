/** How a gRPC call ended, as an error of this package. */
import type { IncomingHttpHeaders } from "node:http2";
import { errors } from "@codeq/protocol";
import { CodeqError, type ErrorCode } from "../codeq-error.ts";
import type { ConversationEnd } from "../conversation.ts";

interface StatusRow {
  readonly code: ErrorCode;
  readonly how: ConversationEnd["how"];
}

/** By number; what is not here says that something broke on the way. */
const statuses: Readonly<Record<number, StatusRow>> = {
  0: { code: "unavailable", how: "over" },
  3: { code: "invalid_argument", how: "refused" },
  7: { code: "permission_denied", how: "refused" },
  9: { code: "not_codeq", how: "refused" },
  12: { code: "not_codeq", how: "refused" },
  16: { code: "unauthenticated", how: "refused" },
};
const broken: StatusRow = { code: "unavailable", how: "lost" };

/** Texts of the table of errors, as far as they say which row they are from. */
const codesByText: ReadonlyMap<string, ErrorCode> = new Map(
  Object.entries(errors).map(([code, { text }]) => [text, code]),
);
const authPrefix = "auth failed: ";

/** From the trailers of the call, or from its headers when it has nothing else. */
export function endOfCall(trailers: IncomingHttpHeaders): ConversationEnd | undefined {
  const status = trailers["grpc-status"];
  if (typeof status !== "string") return undefined;
  const { code, how } = statuses[Number(status)] ?? broken;
  const text = decodeMessage(String(trailers["grpc-message"] ?? ""));
  const told = codesByText.get(text.startsWith(authPrefix) ? text.slice(authPrefix.length) : text);
  const shown = text === "" ? `the server ended the stream (status ${status})` : text;
  const error = new CodeqError(how === "refused" ? (told ?? code) : code, shown);
  // A caller that cannot be checked for now is not one that is not wanted.
  return { how: how === "refused" && error.retryable ? "lost" : how, error };
}

/** An answer that is not gRPC: a proxy in between, or another server. */
export function endOfStrangeAnswer(headers: IncomingHttpHeaders): ConversationEnd | undefined {
  const status = Number(headers[":status"]);
  const type = String(headers["content-type"] ?? "");
  if (status === 200 && type.startsWith("application/grpc")) return undefined;
  if (status >= 500) {
    const error = new CodeqError("unavailable", `the server answered with status ${status}`);
    return { how: "lost", error };
  }
  const text = `what answers is not a codeQ stream (status ${status}, ${type || "no content type"})`;
  return { how: "refused", error: new CodeqError("not_codeq", text) };
}

function decodeMessage(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // Not encoded as it should be: better shown as it came than not at all.
    return text;
  }
}
