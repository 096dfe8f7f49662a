/** The bytes are not a message of the expected kind: cut off, damaged, or built to do harm. */
export class WireError extends Error {
  override readonly name: string = "WireError";
}
