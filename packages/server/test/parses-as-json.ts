/** Whether the parser of JavaScript takes a text, for tests of our own scanners. */
export function parsesAsJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    // Not JSON.
    return false;
  }
}
