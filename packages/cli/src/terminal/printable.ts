/** Others choose texts that are printed here, and a terminal obeys what it is sent. */
import { stripVTControlCharacters } from "node:util";

export function printable(text: string): string {
  return stripVTControlCharacters(text).replace(/\p{Cc}+/gu, " ");
}
