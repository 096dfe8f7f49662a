/** Draws a random identity for a new store. */
import { randomBytes } from "node:crypto";

export function drawIdentity(): number {
  return 1 + randomBytes(6).readUIntBE(0, 6);
}
