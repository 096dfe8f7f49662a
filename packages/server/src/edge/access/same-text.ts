/** Compares secrets without telling by its duration how much of them is the same. */
import { hash, timingSafeEqual } from "node:crypto";

export function isSameText(one: string, other: string): boolean {
  const bytes = (text: string): Buffer => Buffer.from(hash("sha256", text, "hex"));
  return timingSafeEqual(bytes(one), bytes(other));
}
