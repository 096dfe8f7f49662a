/** What schedules cost: memory and processor time at rest, and firing compared with creating tasks. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { TenantId } from "@codeq/queue";
import { enqueueOne, openBroker } from "./open-broker.ts";
import { readOptions, wholeNumber } from "./options.ts";

export const schedulesHelp = `schedules of one broker: at rest, and 1,000 that are due together
    --schedules 10000          at rest
    --due 1000                 that fire together, and tasks that are created together
    --rounds 5                 of both, by turns; the best of each are shown
    --seconds 10               at rest`;

const tenantId = "bench" as TenantId;
const options = {
  command: "work",
  payload: JSON.stringify({ data: "x".repeat(80) }),
  priority: 0,
  webhook: "",
  maxAttempts: 5,
  timeoutSeconds: 0,
  ttlSeconds: 0,
  tags: [],
  cron: "",
  every: "",
  offset: "",
  tz: "UTC",
  except: [],
  times: 0,
  overlap: "allow",
  graceSeconds: 30,
  catchUp: "latest",
  within: "",
  spread: "",
  pauseAfterFailures: 0,
} as const;

export async function schedulesBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    schedules: wholeNumber("10000"),
    due: wholeNumber("1000"),
    rounds: wholeNumber("5"),
    seconds: wholeNumber("10"),
  });
  const directory = await mkdtemp(join(tmpdir(), "codeq-schedules-"));
  try {
    const { broker, engine } = await openBroker(directory, { mode: "os", flushMiB: 64 });
    const { schedules } = broker;
    const make = (id: string, spec: object): Promise<unknown> =>
      schedules.put({ tenantId, id }, { ...options, ...spec }, undefined) as Promise<unknown>;
    const before = heapBytes();
    for (let at = 0; at < values.schedules; at++) {
      await make(`rest-${at}`, { cron: `${at % 60} ${at % 24} 1 1 *`, tz: "Europe/Paris" });
    }
    const perSchedule = (heapBytes() - before) / values.schedules;
    const cpu = process.cpuUsage();
    await pause(values.seconds * 1000);
    const used = process.cpuUsage(cpu);
    console.log(`heap of ${values.schedules} schedules: ${Math.round(perSchedule)} B each`);
    console.log(
      `processor time at rest: ${(used.user + used.system) / 1000} ms in ${values.seconds} s`,
    );
    for (let at = 0; at < values.due; at++) await make(`due-${at}`, { every: "1s" });
    const fired: number[] = [];
    const created: number[] = [];
    for (let round = 0; round < values.rounds; round++) {
      await pause(1001);
      fired.push(await timed(() => schedules.fireDue(values.due)));
      const all = Array.from({ length: values.due }, () => enqueueOne);
      created.push(await timed(() => Promise.all(all.map((create) => create(broker)))));
    }
    const [fire, create] = [Math.min(...fired), Math.min(...created)];
    console.log(
      `firing ${values.due}: ${fire.toFixed(1)} ms; creating as many: ${create.toFixed(1)} ms`,
    );
    console.log(`ratio: ${(fire / create).toFixed(2)}`);
    await engine[Symbol.asyncDispose]();
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function heapBytes(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

async function timed(run: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await run();
  return performance.now() - startMs;
}
