/**
 * The W3C trace context of a caller, over any transport. A malformed context is dropped, as the
 * specification requires, so every stored context can be sent on as a header.
 */
import { limits } from "@codeq/protocol";

const parentPattern = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;
const statePattern = /^[\t\x20-\x7e]*$/;

export function traceContext(
  parent: string,
  state: string,
): { traceParent: string; traceState: string } {
  if (!parentPattern.test(parent)) return { traceParent: "", traceState: "" };
  const hasState = state.length <= limits.traceCharsMax && statePattern.test(state);
  return { traceParent: parent, traceState: hasState ? state : "" };
}
