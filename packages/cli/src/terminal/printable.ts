/** Removes control characters from texts that other people chose, because a terminal would execute them. */
import { stripVTControlCharacters } from "node:util";

export function printable(text: string): string {
  return stripVTControlCharacters(text).replace(/\p{Cc}+/gu, " ");
}
