/**
 * `npm run sim`: runs the simulation for given seeds, a number of fresh seeds, or a time, and says
 * how to replay what it finds.
 */
import { parseArgs } from "node:util";
import type { Config } from "../../packages/server/src/config/settings.ts";
import { runBatches } from "./batch-run.ts";
import { clusterStepsDefault, simulateCluster } from "./cluster-run.ts";
import { runLanes } from "./lanes-run.ts";
import { shardedStepsDefault, simulateShards } from "./sharded-run.ts";
import { type SimulationOutcome, simulate, stepsDefault } from "./simulation.ts";

const usage = `npm run sim -- [options]
  --seed N          the first seed (drawn from the time unless given)
  --seeds COUNT     how many seeds to run, one after the other (1, or no limit with --seconds)
  --seconds S       stop after so many seconds
  --steps K         steps of trouble in each run (${stepsDefault})
  --mode M          fsync, interval or os (drawn from the seed unless given)
  --shards          a router over 1, 2, 3 or 8 shards instead of a whole server
  --cluster         three nodes that share a log instead of a whole server
  --lanes           tasks with lanes: with --shards and --cluster in these, otherwise in one broker
  --batches         the same with batches; both together with --shards and --cluster
  --trace           print everything that happens
  --help            this text
Ends with 1 when a promise is broken.`;

const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    seeds: { type: "string" },
    seconds: { type: "string" },
    steps: { type: "string" },
    mode: { type: "string" },
    shards: { type: "boolean" },
    cluster: { type: "boolean" },
    lanes: { type: "boolean" },
    batches: { type: "boolean" },
    trace: { type: "boolean" },
    help: { type: "boolean" },
  },
});

const { lanes: hasLanes = false, batches: hasBatches = false } = values;
const ofKind = (hasLanes ? " --lanes" : "") + (hasBatches ? " --batches" : "");

if (values.help === true) console.log(usage);
else if (values.cluster === true) process.exitCode = await runCluster();
else if (values.shards === true) process.exitCode = await runShards();
else if (hasLanes) process.exitCode = await runOneBroker((seed) => runLanes(`lanes-${seed}`));
else if (hasBatches) process.exitCode = await runOneBroker((seed) => runBatches(`batches-${seed}`));
else process.exitCode = await main();

/** In seconds. */
function elapsed(): number {
  return performance.now() / 1000;
}

/** As many as the options say. */
function* seedsToRun(): Generator<number> {
  const first = number(values.seed) ?? Math.floor(performance.timeOrigin) % 1_000_000_000;
  const seconds = number(values.seconds) ?? Number.POSITIVE_INFINITY;
  const count = number(values.seeds) ?? (values.seconds === undefined ? 1 : 1e9);
  for (let seed = first; seed < first + count && elapsed() < seconds; seed += 1) yield seed;
}

async function main(): Promise<number> {
  const totals = { seeds: 0, steps: 0, calls: 0, records: 0, lives: 0, failed: 0 };
  let trace = "";
  for (const seed of seedsToRun()) {
    const outcome = await simulate({
      seed,
      steps: number(values.steps) ?? stepsDefault,
      durability: values.mode as Config["durability"] | undefined,
      onLine: values.trace === true ? (line) => console.log(line) : undefined,
    });
    totals.seeds += 1;
    totals.steps += outcome.steps;
    totals.calls += outcome.calls;
    totals.records += outcome.records;
    totals.lives += outcome.lives;
    if (outcome.finding !== undefined) {
      totals.failed += 1;
      tell(outcome);
    }
    trace = outcome.trace;
  }
  if (totals.seeds === 1) console.log(`trace ${trace}`);
  const rate = Math.round(totals.steps / elapsed());
  console.log(`${JSON.stringify(totals)} in ${elapsed().toFixed(1)} s, ${rate} steps/s`);
  return totals.failed === 0 ? 0 : 1;
}

async function runOneBroker(run: (seed: number) => Promise<string | undefined>): Promise<number> {
  const totals = { seeds: 0, failed: 0 };
  for (const seed of seedsToRun()) {
    const finding = await run(seed);
    totals.seeds += 1;
    if (finding === undefined) continue;
    totals.failed += 1;
    console.log(`seed ${seed}: ${finding}`);
    console.log(`  replay with: npm run sim --${ofKind} --seed ${seed}`);
  }
  console.log(`${JSON.stringify(totals)} in ${elapsed().toFixed(1)} s`);
  return totals.failed === 0 ? 0 : 1;
}

async function runShards(): Promise<number> {
  const totals = { seeds: 0, acknowledged: 0, claimed: 0, crashes: 0, failed: 0 };
  for (const seed of seedsToRun()) {
    const steps = number(values.steps) ?? shardedStepsDefault;
    const outcome = await simulateShards({ seed, steps, hasLanes, hasBatches });
    totals.seeds += 1;
    totals.acknowledged += outcome.acknowledged;
    totals.claimed += outcome.claimed;
    totals.crashes += outcome.crashes;
    if (outcome.finding === undefined) continue;
    totals.failed += 1;
    console.log(`seed ${seed} (${outcome.shards} shards): ${outcome.finding}`);
    console.log(`  replay with: npm run sim -- --shards${ofKind} --seed ${seed}`);
  }
  console.log(`${JSON.stringify(totals)} in ${elapsed().toFixed(1)} s`);
  return totals.failed === 0 ? 0 : 1;
}

async function runCluster(): Promise<number> {
  const totals = {
    seeds: 0,
    acknowledged: 0,
    claimed: 0,
    reads: 0,
    fired: 0,
    faults: 0,
    epochs: 0,
    failed: 0,
  };
  for (const seed of seedsToRun()) {
    const steps = number(values.steps) ?? clusterStepsDefault;
    const outcome = await simulateCluster({ seed, steps, hasLanes, hasBatches });
    totals.seeds += 1;
    totals.acknowledged += outcome.acknowledged;
    totals.claimed += outcome.claimed;
    totals.reads += outcome.reads;
    totals.fired += outcome.fired;
    totals.faults += outcome.faults;
    totals.epochs += outcome.epochs;
    if (outcome.finding === undefined) continue;
    totals.failed += 1;
    console.log(`seed ${seed} (${outcome.shards} shards): ${outcome.finding}`);
    console.log(`  replay with: npm run sim -- --cluster${ofKind} --seed ${seed}`);
  }
  console.log(`${JSON.stringify(totals)} in ${elapsed().toFixed(1)} s`);
  return totals.failed === 0 ? 0 : 1;
}

function tell({ seed, durability, finding, steps }: SimulationOutcome): void {
  const mode = values.mode === undefined ? "" : ` --mode ${values.mode}`;
  const more = values.steps === undefined ? "" : ` --steps ${values.steps}`;
  console.log(`seed ${seed} (${durability}, step ${steps}): ${finding?.checker}: ${finding?.text}`);
  console.log(`  replay with: npm run sim -- --seed ${seed}${mode}${more} --trace`);
}

function number(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}
