/** Decodes the text of a field that the caller chose; invalid text is an error of the event. */
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
