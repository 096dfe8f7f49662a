/**
 * The text of a body. Bytes that are not UTF-8 are refused: a decoder would replace different bytes with the
 * same character, so two different keys could become equal.
 */
import { isUtf8 } from "node:buffer";

const replacement = "\ufffd";

/** Undefined when the bytes are not UTF-8. */
export function bodyText(bytes: Buffer): string | undefined {
  const text = bytes.toString("utf8");
  // Looked at once more only when something may have been replaced, which hardly any body asks for.
  return text.includes(replacement) && !isUtf8(bytes) ? undefined : text;
}
