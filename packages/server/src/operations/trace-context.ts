/**
 * W3C trace context as a caller sent it, over any transport. A context that is malformed is left out,
 * as the specification asks, so everything that is stored can be sent on as a header.
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
