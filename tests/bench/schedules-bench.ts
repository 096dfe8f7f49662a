/** What schedules cost: at rest, when they fire compared with creating tasks, and to streams beside them. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { TenantId } from "@codeq/queue";
import { median } from "./figures.ts";
import { heldBytes } from "./held-bytes.ts";
import { enqueueOne, openBroker } from "./open-broker.ts";
import { readOptions, wholeNumber } from "./options.ts";
import { measureStreams } from "./streams-bench.ts";
import { ask, Workspace } from "./workspace.ts";

export const schedulesHelp = `schedules of one broker: at rest, 1,000 that are due together, and streams beside them
    --schedules 10000          at rest
    --due 1000                 that fire together, and tasks that are created together
    --rounds 15                of both, by turns; medians of CPU time of the second half, when everything is compiled
    --seconds 10               at rest
    --streams-seconds 5        of full cycles over streams, without and with schedules by turns; 0 leaves them out`;

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
  lane: "",
  cost: 0,
} as const;

export async function schedulesBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    schedules: wholeNumber("10000"),
    due: wholeNumber("1000"),
    rounds: wholeNumber("15"),
    seconds: wholeNumber("10"),
    "streams-seconds": wholeNumber("5", 0),
  });
  await brokerCosts(values);
  if (values["streams-seconds"] > 0) {
    await streamsBeside({ ...values, seconds: values["streams-seconds"] });
  }
}

interface Sizes {
  readonly schedules: number;
  readonly due: number;
  readonly rounds: number;
  readonly seconds: number;
}

async function brokerCosts(values: Sizes): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "codeq-schedules-"));
  try {
    const { broker, engine } = await openBroker(directory, { mode: "os", flushMiB: 64 });
    const { schedules } = broker;
    const make = (id: string, spec: object): Promise<unknown> =>
      schedules.put({ tenantId, id }, { ...options, ...spec }, undefined) as Promise<unknown>;
    const before = heldBytes();
    for (let at = 0; at < values.schedules; at++) {
      await make(`rest-${at}`, { cron: `${at % 60} ${at % 24} 1 1 *`, tz: "Europe/Paris" });
    }
    const perSchedule = (heldBytes() - before) / values.schedules;
    const cpu = process.cpuUsage();
    await pause(values.seconds * 1000);
    const used = process.cpuUsage(cpu);
    const all = ((perSchedule * values.schedules) / 2 ** 20).toFixed(1);
    console.log(
      `memory of ${values.schedules} schedules: ${all} MiB, ${Math.round(perSchedule)} B each`,
    );
    console.log(
      `processor time at rest: ${(used.user + used.system) / 1000} ms in ${values.seconds} s`,
    );
    // One instant is due in each round.
    for (let at = 0; at < values.due; at++) await make(`due-${at}`, { every: "2s" });
    const fired: number[] = [];
    const created: number[] = [];
    for (let round = 0; round < values.rounds; round++) {
      const all = Array.from({ length: values.due }, () => enqueueOne);
      // Each after a pause: what comes second finds the caches warm.
      await pause(1001);
      fired.push(await cpuOf(() => schedules.fireDue(values.due)));
      await pause(1001);
      created.push(await cpuOf(() => Promise.all(all.map((create) => create(broker)))));
    }
    const half = Math.floor(values.rounds / 2);
    const [fire = 0, create = 0] = [median(fired.slice(half)), median(created.slice(half))];
    console.log(
      `CPU of firing ${values.due}: ${fire.toFixed(1)} ms; of creating as many: ${create.toFixed(1)} ms`,
    );
    console.log(`ratio: ${(fire / create).toFixed(2)} (at most 1.5 is wanted)`);
    await engine[Symbol.asyncDispose]();
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** In milliseconds. */
async function cpuOf(run: () => Promise<unknown>): Promise<number> {
  const start = process.cpuUsage();
  await run();
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
}

/** Cycles over streams, of a server without schedules and of one with many that are not due. */
async function streamsBeside({ schedules, seconds }: Sizes): Promise<void> {
  await using workspace = new Workspace();
  const rates: Record<number, number[]> = { 0: [], [schedules]: [] };
  const cpu: Record<number, number[]> = { 0: [], [schedules]: [] };
  for (let round = 0; round < streamRounds; round++) {
    for (const many of round % 2 === 0 ? [0, schedules] : [schedules, 0]) {
      const measured = await measureStreams(workspace, {
        mode: "os",
        client: "own",
        warmUpSeconds: 2,
        seconds,
        load: { ...load, part: "closed", tasksPerSecond: 0 },
        prepare: async (server) => {
          for (let at = 0; at < many; at++) {
            const body = { command: "work", cron: `${at % 60} ${at % 24} 1 1 *` };
            await ask(server, `/admin/schedules/rest-${at}`, body, "PUT");
          }
        },
      });
      rates[many]?.push(measured.cyclesPerSecond);
      cpu[many]?.push(measured.server.usPerCycle);
    }
  }
  const show = (what: string, of: Record<number, number[]>): void => {
    const [without = 0, beside = 0] = [median(of[0] ?? []), median(of[schedules] ?? [])];
    const change = ((beside / without - 1) * 100).toFixed(1);
    console.log(`${what}: ${without.toFixed(1)} without, ${beside.toFixed(1)} beside: ${change} %`);
  };
  show("cycles/s of streams", rates);
  show("server us/cycle", cpu);
}

const streamRounds = 5;
const load = { producers: 32, slots: 128, workerStreams: 4, batch: 8, batchOut: 32 };
