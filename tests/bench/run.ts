/**
 * `npm run bench -- <subject> [options]`: measures a part of the server on this machine. A subject is
 * a file beside this one that is added to the table below.
 */
import { accessBench, accessHelp } from "./access-bench.ts";
import { batchesBench, batchesHelp } from "./batches-bench.ts";
import { clientsBench, clientsHelp } from "./clients-bench.ts";
import { clusterBench, clusterHelp } from "./cluster-bench.ts";
import { consoleBench, consoleHelp } from "./console-bench.ts";
import { engineBench, engineHelp } from "./engine-bench.ts";
import { fairnessBench, fairnessHelp } from "./fairness-bench.ts";
import { httpBench, httpHelp } from "./http-bench.ts";
import { lanesBench, lanesHelp } from "./lanes-bench.ts";
import { limitsBench, limitsHelp } from "./limits-bench.ts";
import { UsageError } from "./options.ts";
import { outboxBench, outboxHelp } from "./outbox-bench.ts";
import { peersBench, peersHelp } from "./peers-bench.ts";
import { SetupError } from "./programs.ts";
import { restBench, restHelp } from "./rest-bench.ts";
import { schedulesBench, schedulesHelp } from "./schedules-bench.ts";
import { sdkBench, sdkHelp } from "./sdk-bench.ts";
import { searchBench, searchHelp } from "./search-bench.ts";
import { shardsBench, shardsHelp } from "./shards-bench.ts";
import { floorBench, floorHelp, streamsBench, streamsHelp } from "./streams-bench.ts";
import { subscriptionsBench, subscriptionsHelp } from "./subscriptions-bench.ts";
import { tracingBench, tracingHelp } from "./tracing-bench.ts";
import { webhooksBench, webhooksHelp } from "./webhooks-bench.ts";

interface Subject {
  readonly help: string;
  readonly run: (args: readonly string[]) => Promise<void>;
}

const subjects: Record<string, Subject> = {
  access: { help: accessHelp, run: accessBench },
  batches: { help: batchesHelp, run: batchesBench },
  clients: { help: clientsHelp, run: clientsBench },
  cluster: { help: clusterHelp, run: clusterBench },
  console: { help: consoleHelp, run: consoleBench },
  engine: { help: engineHelp, run: engineBench },
  fairness: { help: fairnessHelp, run: fairnessBench },
  floor: { help: floorHelp, run: (args) => floorBench(args) },
  http: { help: httpHelp, run: httpBench },
  lanes: { help: lanesHelp, run: lanesBench },
  limits: { help: limitsHelp, run: limitsBench },
  outbox: { help: outboxHelp, run: outboxBench },
  peers: { help: peersHelp, run: peersBench },
  rest: { help: restHelp, run: restBench },
  schedules: { help: schedulesHelp, run: schedulesBench },
  search: { help: searchHelp, run: searchBench },
  sdk: { help: sdkHelp, run: sdkBench },
  shards: { help: shardsHelp, run: shardsBench },
  streams: { help: streamsHelp, run: (args) => streamsBench(args) },
  subscriptions: { help: subscriptionsHelp, run: subscriptionsBench },
  tracing: { help: tracingHelp, run: tracingBench },
  webhooks: { help: webhooksHelp, run: webhooksBench },
};

function help(names: readonly string[]): string {
  const texts = names.map((each) => `  ${each}  ${subjects[each]?.help}`);
  return `Usage: npm run bench -- <subject> [options]\n\n${texts.join("\n")}`;
}

const [name = "--help", ...args] = process.argv.slice(2);
const subject = subjects[name];
const everything = Object.keys(subjects);
if (name === "--help") {
  console.log(help(everything));
} else if (subject === undefined) {
  console.error(`error: there is nothing called ${name} to measure\n\n${help(everything)}`);
  process.exitCode = 1;
} else if (args.includes("--help")) {
  console.log(help([name]));
} else {
  try {
    await subject.run(args);
  } catch (error) {
    const isUsage = error instanceof UsageError;
    if (!isUsage && !(error instanceof SetupError)) throw error;
    console.error(`error: ${error.message}`);
    if (isUsage) console.error(`\n${help([name])}`);
    process.exitCode = 1;
  }
}
