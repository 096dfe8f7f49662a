/**
 * Three nodes with three log servers beside a server alone, measured by turns on one machine; and what clients notice
 * when nodes fail, join and are upgraded.
 */
import { failoverTable, faultNames, upgradeTable } from "./cluster-failover.ts";
import { joinTable } from "./cluster-join.ts";
import { ClusterNodes, nodeIds } from "./cluster-nodes.ts";
import { type Figure, figure, latencyFigure, medianFigures } from "./figures.ts";
import { loadProgram } from "./go-client.ts";
import { type Measured, type Measurement, measure } from "./measure.ts";
import { batchSizes, choices, readOptions, wholeNumber } from "./options.ts";
import { progress, Table } from "./table.ts";
import { type Listening, Workspace } from "./workspace.ts";

export const clusterHelp = `three nodes beside a server alone, over streams; failover, join and upgrade
    --batch 1,64               tasks in a message; 8:32 creates 8 in a message and asks for up to 32
    --rate 200                 tasks per second of the light load, one in a message; 0 leaves it out
    --producers 32             concurrent, on one producer stream
    --slots 128                worker slots on 4 streams
    --seconds 10               per measurement; 0 leaves these tables out
    --warm-up 3                seconds before each
    --rounds 3                 of each case, by turns; then the medians
    --failover 0               how often each fault strikes the leader
    --faults ${faultNames.join(",")}
    --upgrade 0                how often all nodes are stopped and started, one after the other
    --join 0                   tasks in a cluster that a node with an empty disk joins, such as 1000000
  Clients talk to the leader, or to a node that follows and passes on what it is asked. All of it runs on this machine,
  so a cluster has the CPUs for itself that several machines would have. Ratio is that of cycles/s to the
  server alone in the same round. CPU is in us per cycle: of the leader, of both followers, of the three log
  servers, of the client. Latencies are in ms, p50/p99; see streams.
  Failover: "pause ms" is the longest time in which nothing was acknowledged through the nodes that stay, median/longest
  of all times; "refused" the plain requests that got an error, none of which is repeated; "calls" those of the client
  library that have ended, with the addresses of all nodes; "failed" those of them that failed; "longest ms" the longest
  call. kill is a SIGKILL, of the node or of its log server or of both; pause a SIGSTOP for five seconds; stop a SIGTERM.`;

const workerStreams = 4;
type Load = Readonly<Record<string, unknown>>;
type Times = Pick<Measurement, "seconds" | "warmUpSeconds">;

interface Case {
  readonly name: string;
  readonly load: Load;
}

export async function clusterBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    batch: batchSizes("1,64"),
    rate: wholeNumber("200", 0),
    producers: wholeNumber("32"),
    slots: wholeNumber("128"),
    seconds: wholeNumber("10", 0),
    "warm-up": wholeNumber("3", 0),
    rounds: wholeNumber("3"),
    failover: wholeNumber("0", 0),
    faults: choices(faultNames, faultNames.join(",")),
    upgrade: wholeNumber("0", 0),
    join: wholeNumber("0", 0),
  });
  const { producers, slots, seconds, rate, failover, faults, upgrade, join } = values;
  const shape = { producers, slots, workerStreams, kind: "streams" };
  const cases = values.batch.map((sizes) => ({
    name: `${sizes.batch}:${sizes.batchOut}`,
    load: { ...shape, ...sizes, part: "closed", tasksPerSecond: 0 },
  }));
  const single = { batch: 1, batchOut: 1, tasksPerSecond: rate };
  const light = { name: `${rate}/s`, load: { ...shape, ...single, part: "paced" } };
  await using workspace = new Workspace();
  if (seconds > 0) {
    const times = { seconds, warmUpSeconds: values["warm-up"] };
    const all = rate === 0 ? cases : [...cases, light];
    await ratesTable(workspace, { cases: all, rounds: values.rounds, times });
  }
  if (failover > 0 || upgrade > 0) {
    await using cluster = await ClusterNodes.start(workspace);
    if (failover > 0) await failoverTable(cluster, { names: faults, times: failover });
    if (upgrade > 0) await upgradeTable(cluster, upgrade);
  }
  if (join > 0) {
    await using cluster = await ClusterNodes.start(workspace);
    await joinTable(cluster, join);
  }
}

async function ratesTable(
  workspace: Workspace,
  what: { readonly cases: readonly Case[]; readonly rounds: number; readonly times: Times },
): Promise<void> {
  const table = new Table(["load", "round", "through"]);
  for (const { name, load } of what.cases) {
    const measured = new Map<string, (readonly Figure[])[]>();
    for (let round = 1; round <= what.rounds; round += 1) {
      progress(`${name}, round ${round}`);
      const alone = await measureAlone(workspace, load, what.times);
      const rows = [
        { through: "alone", figures: figuresOf(alone, alone, {}) },
        ...(await measureCluster(workspace, { load, times: what.times, alone })),
      ];
      for (const { through, figures } of rows) {
        measured.set(through, [...(measured.get(through) ?? []), figures]);
        table.add([name, String(round), through], figures);
      }
    }
    if (what.rounds === 1) continue;
    for (const [through, rounds] of measured) {
      table.add([name, "median", through], medianFigures(rounds));
    }
  }
}

async function measureAlone(workspace: Workspace, load: Load, times: Times): Promise<Measured> {
  const server = await workspace.startServer({ CODEQ_DURABILITY: "fsync" });
  const measured = await measure(workspace, { ...times, ...target(server, load) });
  await workspace.stop(server.child);
  return measured;
}

interface Row {
  readonly through: string;
  readonly figures: readonly Figure[];
}

async function measureCluster(
  workspace: Workspace,
  what: { readonly load: Load; readonly times: Times; readonly alone: Measured },
): Promise<Row[]> {
  await using cluster = await ClusterNodes.start(workspace);
  const rows: Row[] = [];
  for (const through of ["leader", "follower"] as const) {
    const leader = await cluster.leader();
    const followers = nodeIds.filter((id) => id !== leader);
    const asked = through === "leader" ? leader : (followers[0] as string);
    const others = nodeIds.filter((id) => id !== asked);
    const measured = await measure(workspace, {
      ...what.times,
      ...target(cluster.node(asked), what.load),
      beside: {
        ...Object.fromEntries(others.map((id) => [id, [cluster.node(id).child]])),
        logs: nodeIds.map((id) => cluster.logServer(id)),
      },
    });
    const us = { ...measured.beside, [asked]: measured.server.usPerCycle };
    const processes = {
      leader: us[leader],
      followers: followers.reduce((sum, id) => sum + (us[id] ?? 0), 0),
      logs: us["logs"],
    };
    rows.push({ through, figures: figuresOf(measured, what.alone, processes) });
  }
  return rows;
}

function target(
  { child, workerStreamPort, producerStreamPort }: Listening,
  load: Load,
): Pick<Measurement, "program" | "load" | "server"> {
  const ports = { workerPort: workerStreamPort, producerPort: producerStreamPort };
  return {
    program: loadProgram("own", "stream-load.ts"),
    load: { ...load, ...ports },
    server: child,
  };
}

/** CPU time of the processes of a cluster, in microseconds a cycle. */
interface ClusterCpu {
  readonly leader?: number | undefined;
  readonly followers?: number | undefined;
  readonly logs?: number | undefined;
}

function figuresOf(measured: Measured, alone: Measured, cpu: ClusterCpu): Figure[] {
  const { latency, server, client } = measured;
  return [
    figure("cycles/s", measured.cyclesPerSecond),
    figure("ratio", measured.cyclesPerSecond / alone.cyclesPerSecond, 2),
    figure("leader us", cpu.leader ?? server.usPerCycle, 1),
    figure("followers us", cpu.followers, 1),
    figure("logs us", cpu.logs, 1),
    figure("client us", client.usPerCycle, 1),
    figure("other", measured.otherCpus, 1),
    latencyFigure("create", latency.create),
    latencyFigure("pickup", latency.pickup),
    latencyFigure("submit", latency.submit),
  ];
}
