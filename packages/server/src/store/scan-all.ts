/** All entries below a prefix in order, read in pieces so that no scan holds much at once. */
import type { Engine } from "@codeq/engine";
import { endOf } from "./keys.ts";

const pieceEntries = 1000;

export async function* scanAll(
  engine: Engine,
  prefix: string,
): AsyncGenerator<readonly [key: string, value: Buffer]> {
  let after = prefix;
  for (;;) {
    const entries = await engine.scan({ after, before: endOf(prefix) }, pieceEntries);
    for (const entry of entries) {
      yield entry;
      after = entry[0];
    }
    if (entries.length < pieceEntries) return;
  }
}
