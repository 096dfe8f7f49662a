/** The identity of a store, which none before it has had. */
import { randomBytes } from "node:crypto";

export function drawIdentity(): number {
  return 1 + randomBytes(6).readUIntBE(0, 6);
}
