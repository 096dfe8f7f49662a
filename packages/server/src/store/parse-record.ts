/** The text of a record as JSON; undefined, like any other value that is no record, when it is not JSON. */
export function parseRecord(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The decoder of the record refuses it.
    return undefined;
  }
}
