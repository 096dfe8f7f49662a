/** What a server tells of its storage in its log lines: they save asking again and again. */
import type { Child } from "./server-process.ts";

const refuses = "storage refuses writes";
const accepts = "storage accepts writes again";

/** Waits as long as the server says that it refuses all writes, and at most until that time. */
export async function untilWritesAreTried(server: Child, untilMs: number): Promise<void> {
  const { stdout } = server;
  if (stdout.lastIndexOf(refuses) <= stdout.lastIndexOf(accepts)) return;
  const { promise: timeIsUp, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, untilMs - performance.now());
  await Promise.race([server.line((line) => line.includes(accepts)), timeIsUp]);
  clearTimeout(timer);
}
