/** For how long a cluster pauses when its leader is killed, paused, stopped or asked to hand over, and when it is upgraded. */
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { type ClusterNodes, nodeIds } from "./cluster-nodes.ts";
import { type CallFigures, LibraryCalls, type Seen, watch } from "./cluster-watch.ts";
import { type Figure, figure, median } from "./figures.ts";
import { progress, Table } from "./table.ts";

interface Scene {
  readonly cluster: ClusterNodes;
  readonly library: LibraryCalls;
  readonly leader: string;
}

interface Fault {
  readonly strike: (scene: Scene) => Promise<void>;
  /** Whether the leader stays, so that plain requests may go to it as well. */
  readonly leaderStays: boolean;
}

const kill = async ({ cluster, leader }: Scene): Promise<void> => {
  const ended = once(cluster.node(leader).child, "exit");
  cluster.signal(leader, "SIGKILL");
  await ended;
};

const faults = {
  "kill-node": { strike: kill, leaderStays: false },
  "kill-log": {
    strike: async ({ cluster, leader }) => cluster.killLogServer(leader),
    leaderStays: true,
  },
  "kill-both": {
    strike: async (scene) => {
      scene.cluster.killLogServer(scene.leader);
      await kill(scene);
    },
    leaderStays: false,
  },
  pause: {
    strike: async ({ cluster, leader }) => cluster.signal(leader, "SIGSTOP"),
    leaderStays: false,
  },
  stop: { strike: ({ cluster, leader }) => cluster.stopNode(leader), leaderStays: false },
  handoff: {
    strike: async ({ library }) => void (await library.client.admin.handOff()),
    leaderStays: true,
  },
} satisfies Record<string, Fault>;

type FaultName = keyof typeof faults;
export const faultNames = Object.keys(faults) as FaultName[];

/** Longer than a node waits before it tries to take over. */
const watchedMs = 5000;
const lanes = 4;

export async function failoverTable(
  cluster: ClusterNodes,
  { names, times }: { readonly names: readonly FaultName[]; readonly times: number },
): Promise<void> {
  await using library = new LibraryCalls(cluster, { lanes, onFailure: progress });
  const table = new Table(["fault", "times"]);
  for (const name of names) {
    const all: Seen[] = [];
    for (let time = 1; time <= times; time += 1) {
      const seen = await strikeOnce({ cluster, library, leader: await cluster.leader() }, name);
      all.push(seen);
      progress(`${name} ${time}: ${Math.round(seen.pauseMs)} ms`);
    }
    table.add([name, String(times)], [...seenFigures(all), ...callFigures(await library.take())]);
  }
}

async function strikeOnce(scene: Scene, name: FaultName): Promise<Seen> {
  const { cluster, leader } = scene;
  const { strike, leaderStays }: Fault = faults[name];
  const ids = nodeIds.filter((id) => leaderStays || id !== leader);
  const seen = await watch({ cluster, ids }, async () => {
    await strike(scene);
    await sleep(watchedMs);
  });
  cluster.signal(leader, "SIGCONT");
  const { exitCode, signalCode } = cluster.node(leader).child;
  if (exitCode !== null || signalCode !== null) await cluster.startNode(leader);
  await cluster.whole();
  return seen;
}

/** Stops and starts one node after the other, as an upgrade does. */
export async function upgradeTable(cluster: ClusterNodes, rounds: number): Promise<void> {
  await using library = new LibraryCalls(cluster, { lanes, onFailure: progress });
  const table = new Table(["round", "node", "led"]);
  const all: Seen[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    for (const id of nodeIds) {
      const ids = nodeIds.filter((other) => other !== id);
      const isLeader = (await cluster.leader()) === id;
      const startedMs = performance.now();
      const seen = await watch({ cluster, ids }, async () => {
        await cluster.stopNode(id);
        await cluster.startNode(id);
        await cluster.whole();
      });
      all.push(seen);
      const seconds = (performance.now() - startedMs) / 1000;
      table.add(
        [String(round), id, isLeader ? "yes" : "no"],
        [...seenFigures([seen]), figure("seconds", seconds, 1), ...callFigures()],
      );
    }
  }
  const calls = callFigures(await library.take());
  table.add(["all", "", ""], [...seenFigures(all), figure("seconds", undefined), ...calls]);
}

function seenFigures(all: readonly Seen[]): Figure[] {
  const pauses = all.map(({ pauseMs }) => pauseMs);
  const sum = (of: (seen: Seen) => number): number =>
    all.reduce((total, seen) => total + of(seen), 0);
  return [
    { name: "pause ms", values: [median(pauses), Math.max(...pauses)], digits: 0 },
    figure(
      "refused",
      sum(({ refused }) => refused),
    ),
  ];
}

/** Of the client library; without any while they are under way. */
function callFigures(taken?: CallFigures): Figure[] {
  return [
    figure("calls", taken?.calls),
    figure("failed", taken?.failed),
    figure("longest ms", taken?.longestMs),
  ];
}
