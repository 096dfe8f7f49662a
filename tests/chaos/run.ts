/** `npm run chaos`: real nodes and log servers under load, with faults, and whether anything was lost. */
import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";
import { median } from "../bench/figures.ts";
import { etcdBinary } from "../cluster/etcd-binary.ts";
import { type CampaignReport, campaign, type FaultPlan } from "./campaign.ts";
import { faultNames } from "./faults.ts";
import { nodeNames } from "./fleet.ts";
import { LoopbackNetwork, NamespaceNetwork, type Network } from "./network.ts";

const usage = `npm run chaos -- [options]
  --seconds S       how long faults go on (600)
  --seed TEXT       repeats the choices of a run (drawn from the time unless given)
  --shards N        drawn from the seed unless given
  --only TEXT       only faults with this in their names
  --each N          every fault N times, instead of --seconds: the pauses of a table
  --list A,B        these faults, one after the other and each until work goes on, instead of --seconds; or with --each
  --loopback        without a network of its own, and so without faults of network and disks
  --no-compare      breaks the log on purpose: the campaign has to notice
  --help            this text
Needs Linux and, but for --loopback, the right to make network namespaces. Ends with 1 when something was lost, done
twice or differs.
Faults: ${faultNames({ withNetwork: true }).join(", ")}.`;

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "600" },
    seed: { type: "string", default: String(Math.floor(performance.timeOrigin) % 1_000_000_000) },
    shards: { type: "string" },
    only: { type: "string", default: "" },
    list: { type: "string" },
    each: { type: "string" },
    "no-compare": { type: "boolean", default: false },
    loopback: { type: "boolean", default: false },
    /** The namespace in which this process was started, by itself. */
    inside: { type: "string" },
    help: { type: "boolean" },
  },
});

const machines = nodeNames;

if (values.help === true) console.log(usage);
else if (values.loopback) process.exitCode = await run(new LoopbackNetwork(machines));
else if (values.inside === undefined) process.exitCode = await outside();
else process.exitCode = await run(new NamespaceNetwork(values.inside, machines));

/** Makes the network, and runs this program again in the middle of it. */
async function outside(): Promise<number> {
  const missing = await NamespaceNetwork.missing();
  if (missing !== undefined) {
    console.error(
      `${missing}. Run the campaign as root on Linux, with iproute2 and iptables, or with --loopback.`,
    );
    return 2;
  }
  // Where it is missing it is built now: inside, Go cannot reach its proxy.
  etcdBinary();
  const hub = `codeq-${process.pid}`;
  const network = new NamespaceNetwork(hub, machines);
  try {
    network.make();
    const [program = "", ...args] = [...network.middle, process.execPath, ...process.execArgv];
    const again = [import.meta.filename, ...process.argv.slice(2), "--seed", values.seed];
    const { status } = spawnSync(program, [...args, ...again, "--inside", hub], {
      stdio: "inherit",
    });
    return status ?? 1;
  } finally {
    network.remove();
  }
}

async function run(network: Network): Promise<number> {
  const etcd = etcdBinary();
  if ("missing" in etcd) {
    console.error(etcd.missing);
    return 2;
  }
  const { seed } = values;
  const plant = new URL("./without-compare.ts", import.meta.url).href;
  const report = await campaign({
    network,
    etcdProgram: etcd.path,
    seed,
    shards: values.shards === undefined ? undefined : Number(values.shards),
    faults: faultPlan(faultNames({ withNetwork: network.ways !== undefined })),
    nodeArgs: values["no-compare"] ? ["--import", plant] : [],
    onLine: (line) => console.log(line),
  });
  for (const line of table(report)) console.log(line);
  for (const problem of report.problems) console.log(`PROBLEM ${problem}`);
  if (report.kept === undefined) console.log(`sound; the seed was ${seed}`);
  else console.log(`not sound; the seed was ${seed}, data and logs are in ${report.kept}`);
  return report.problems.length === 0 ? 0 : 1;
}

function faultPlan(all: readonly string[]): FaultPlan {
  const listed = values.list?.split(",");
  const unknown = listed?.find((name) => !all.includes(name));
  if (unknown !== undefined) throw new Error(`there is no fault called "${unknown}"`);
  const names = listed ?? all.filter((name) => name.includes(values.only));
  if (values.each !== undefined) return { kind: "each", names, times: Number(values.each) };
  if (listed !== undefined) return { kind: "listed", names };
  return { kind: "drawn", names, seconds: Number(values.seconds) };
}

function table({ shards, acknowledged, completions, repeated, struck }: CampaignReport): string[] {
  const rows: [string, string][] = [
    ["shards", String(shards)],
    ["tasks acknowledged", String(acknowledged)],
    ["completions acknowledged", String(completions)],
    ["requests that were repeated", String(repeated)],
    ...[...struck].map(([name, pauses]): [string, string] => {
      const figures = `median ${Math.round(median(pauses) ?? 0)} ms, longest ${Math.max(...pauses)} ms`;
      return [name, `${pauses.length} times, pauses: ${figures}`];
    }),
  ];
  return rows.map(([what, value]) => `  ${what.padEnd(44)} ${value}`);
}
