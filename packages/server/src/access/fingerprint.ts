/** What a token is looked up by: whoever can guess at timings learns of the hash, never of the token. */
import { hash } from "node:crypto";

export function fingerprintOf(token: string): string {
  return hash("sha256", token);
}
