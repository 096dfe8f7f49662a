/** Programs of others that the demonstration needs. */
import type { Child } from "../e2e/server-process.ts";

/** A program of others cannot be had or does not start. */
export class PartError extends Error {}

/** Resolves when the program answers, and works. */
export async function untilAnswered(url: string, child: Child): Promise<void> {
  for (;;) {
    const { process: program } = child;
    if (program.exitCode !== null || program.signalCode !== null) {
      throw new PartError(`${program.spawnfile} has ended: ${child.stderr}`);
    }
    const answer = await fetch(url).catch(() => undefined);
    await answer?.arrayBuffer();
    if (answer !== undefined && answer.status < 500) return;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
