/** A random number, uniform in [0, 1). */
import { randomFillSync } from "node:crypto";

const word = new Uint32Array(1);

export function drawUniform(): number {
  return (randomFillSync(word)[0] as number) / 2 ** 32;
}
