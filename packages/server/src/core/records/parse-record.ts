/** Parses the text of a record; undefined when it is not JSON, so that the decoder refuses it. */
export function parseRecord(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Undefined is not a valid record.
    return undefined;
  }
}
