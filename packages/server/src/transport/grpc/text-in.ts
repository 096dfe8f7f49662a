/** The text of a field whose bytes are the caller's own: what is wrong with it is the event's fault. */
import { textOf, type WireBytes, WireError } from "@codeq/protocol/wire";

/** Undefined when the bytes are not UTF-8. */
export function textIn(bytes: WireBytes): string | undefined {
  try {
    return textOf(bytes);
  } catch (error) {
    if (error instanceof WireError) return undefined;
    throw error;
  }
}
