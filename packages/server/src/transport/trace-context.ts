/** W3C trace context as a caller sent it; what is not well-formed is left out. */
const parentPattern = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;
const stateCharsMax = 512;

export function traceContext(
  parent: unknown,
  state: unknown,
): { traceParent: string; traceState: string } {
  if (typeof parent !== "string" || !parentPattern.test(parent)) {
    return { traceParent: "", traceState: "" };
  }
  const hasState = typeof state === "string" && state.length <= stateCharsMax;
  return { traceParent: parent, traceState: hasState ? state : "" };
}
