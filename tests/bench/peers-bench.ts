/**
 * The same job, on the same machine, in the same run, counted the same way: ours with its own
 * durability, BullMQ on Redis, and beanstalkd with its two ways to sync. The rounds go through all of
 * them in turn, so that what disturbs the machine disturbs everyone, and medians are compared.
 */
import type { ChildProcess } from "node:child_process";
import { type ClientName, clientOption, ensureClients } from "./go-client.ts";
import type { LoadOptions } from "./load.ts";
import { type Measured, measure } from "./measure.ts";
import { choice, readOptions, wholeNumber } from "./options.ts";
import { ensurePeers, startBeanstalkd, startRedis } from "./peer-servers.ts";
import { type ContenderName, type JobName, PeersReport } from "./peers-report.ts";
import { measureStreams } from "./streams-bench.ts";
import { progress } from "./table.ts";
import { Workspace } from "./workspace.ts";

export const peersHelp = `the job of the streams benchmark, beside BullMQ on Redis and beanstalkd
    --rounds 3                 through all of them; medians are compared
    --client own               both measures ours with grpc-go, too, as for streams
    --mode fsync               our durability: fsync, interval or os
    --batch 64                 tasks in a batch
    --producers 32, --slots 128, --worker-streams 4
                               as for streams
    --seconds 10               per measurement; 0 leaves out all but the light load
    --warm-up 3                seconds before each
    --rate 200                 tasks per second of the light load
    --rate-seconds 10          per measurement of it; 0 leaves it out
  Needs redis-server and beanstalkd. Where they are missing and apt-get may be used they are installed
  from Debian's packages; no service is started. They run on the loopback with a directory beside ours.
  Redis appends with fsync every second, and is otherwise as it comes. BullMQ has one Queue for all
  producers and four Workers that share the slots; finished jobs are kept with their results, as ours
  are; batches are addBulk, for it has none on the side of workers. beanstalkd syncs its binlog every
  50 ms, or with -f0 on every write; its result is the delete. One at a time each slot has a connection,
  as a reserve that waits blocks it; batches are pipelined on four connections, which is its best.
  All producers share a connection everywhere. Clients are one process each, apart from the server.
  A task counts when its result (the completion, the delete) was acknowledged. server us is the CPU time
  of the server process per task: for BullMQ that of Redis with the scripts that it runs.`;

const bullMqWorkers = 4;
/** More connections than this made beanstalkd slower when commands are pipelined. */
const beanstalkBatchSlots = 4;

interface Job {
  readonly name: JobName;
  readonly load: LoadOptions;
  readonly warmUpSeconds: number;
  readonly seconds: number;
}

interface Contender {
  readonly name: ContenderName;
  readonly run: (workspace: Workspace, job: Job) => Promise<Measured>;
}

export async function peersBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    rounds: wholeNumber("3"),
    client: clientOption(),
    mode: choice(["fsync", "interval", "os"], "fsync"),
    batch: wholeNumber("64"),
    producers: wholeNumber("32"),
    slots: wholeNumber("128"),
    "worker-streams": wholeNumber("4"),
    seconds: wholeNumber("10", 0),
    "warm-up": wholeNumber("3", 0),
    rate: wholeNumber("200"),
    "rate-seconds": wholeNumber("10", 0),
  });
  const { producers, slots } = values;
  const times = { warmUpSeconds: values["warm-up"], seconds: values.seconds };
  const closed = { part: "closed", producers, slots, tasksPerSecond: 0 } as const;
  const light = { ...closed, part: "paced", tasksPerSecond: values.rate } as const;
  const single = { batch: 1, batchOut: 1 };
  const batches = { batch: values.batch, batchOut: values.batch };
  const allJobs: readonly Job[] = [
    { ...times, name: "one at a time", load: { ...closed, ...single } },
    { ...times, name: "batches", load: { ...closed, ...batches } },
    {
      ...times,
      name: "light load",
      load: { ...light, ...single },
      seconds: values["rate-seconds"],
    },
  ];
  const jobs = allJobs.filter(({ seconds }) => seconds > 0);
  const workerStreams = values["worker-streams"];
  const contenders = [
    ...values.client.map((client) => ours(values.mode, workerStreams, client)),
    ...peers,
  ];
  ensureClients(values.client);
  ensurePeers();
  await using workspace = new Workspace();
  const report = new PeersReport();
  for (let round = 1; round <= values.rounds; round += 1) {
    for (const job of jobs) {
      for (const contender of contenders) {
        progress(`round ${round} of ${values.rounds}: ${contender.name}, ${job.name}`);
        report.add(contender.name, job.name, await contender.run(workspace, job));
      }
    }
  }
  report.printMedians();
  if (jobs.length === allJobs.length && values.client.includes("own")) report.printAims();
}

function ours(mode: string, workerStreams: number, client: ClientName): Contender {
  return {
    name: client === "own" ? "codeQ" : "codeQ, Go",
    run: (workspace, job) =>
      measureStreams(workspace, { ...job, mode, client, load: { ...job.load, workerStreams } }),
  };
}

const peers: readonly Contender[] = [
  {
    name: "BullMQ",
    run: async (workspace, job) => {
      const server = await startRedis(workspace);
      const load = { ...job.load, workers: bullMqWorkers };
      return await measurePeer(workspace, server, { ...job, load, file: "bullmq-load.ts" });
    },
  },
  { name: "beanstalkd", run: (workspace, job) => runBeanstalkd(workspace, job, 50) },
  { name: "beanstalkd -f0", run: (workspace, job) => runBeanstalkd(workspace, job, 0) },
];

async function runBeanstalkd(workspace: Workspace, job: Job, syncMs: number): Promise<Measured> {
  const server = await startBeanstalkd(workspace, syncMs);
  const slots = job.load.batch > 1 ? beanstalkBatchSlots : job.load.slots;
  const load = { ...job.load, slots };
  return await measurePeer(workspace, server, { ...job, load, file: "beanstalk-load.ts" });
}

async function measurePeer(
  workspace: Workspace,
  { child, port }: { readonly child: ChildProcess; readonly port: number },
  what: Job & { readonly file: string },
): Promise<Measured> {
  const load = { ...what.load, port };
  const program = { kind: "node", file: what.file } as const;
  const measured = await measure(workspace, { ...what, load, program, server: child });
  await workspace.stop(child);
  return measured;
}
