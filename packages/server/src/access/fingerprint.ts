/**
 * The hash by which a token is looked up: timing differences can reveal parts of the hash, never of the
 * token.
 */
import { hash } from "node:crypto";

export function fingerprintOf(token: string): string {
  return hash("sha256", token);
}
