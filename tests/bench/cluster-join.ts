/** How long a node with an empty disk takes to have a copy of everything, and what the others notice of it. */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { ApiClient } from "../e2e/api-client.ts";
import { type ClusterNodes, nodeIds } from "./cluster-nodes.ts";
import { LibraryCalls, type Seen, watch } from "./cluster-watch.ts";
import { cpuOf, type Process } from "./cpu-time.ts";
import { type Figure, figure, latencyFigure } from "./figures.ts";
import { progress, Table } from "./table.ts";

const batch = 500;
const fillLanes = 4;
const paceMs = 20;
const beforeMs = 10_000;
const askAgainMs = 50;
const mebibyte = 1024 * 1024;

export async function joinTable(cluster: ClusterNodes, tasks: number): Promise<void> {
  const fillSeconds = await fill(cluster, tasks);
  progress(`${tasks} tasks were created in ${fillSeconds.toFixed(1)} s`);
  const [joining = "", ...others] = await followersFirst(cluster);
  await letOthersTrim(cluster, joining, others);
  await using library = new LibraryCalls(cluster, { lanes: 1, onFailure: progress });
  const table = new Table(["", "tasks"]);
  const parts = { cluster, ids: others, paceMs };
  const add = (name: string, seen: Seen, failed: number, more: readonly Figure[]): void =>
    table.add([name, String(tasks)], [...seenFigures(seen), figure("failed", failed), ...more]);
  const before = await watch(parts, () => sleep(beforeMs));
  const { failed: failedBefore } = await library.take();
  const used = await cpuWatch(cluster, others);
  let seconds = 0;
  const during = await watch(parts, async () => {
    const startedMs = performance.now();
    await cluster.startNode(joining);
    await caughtUp(cluster, joining, others[0] as string);
    seconds = (performance.now() - startedMs) / 1000;
  });
  const [own, rest] = [(await cpuOf(cluster.node(joining).child)).seconds, await used()];
  const megabytes = (await cluster.bytesOf(joining)) / mebibyte;
  const { failed } = await library.take();
  add("before", before, failedBefore, joinFigures({}));
  add("joining", during, failed, joinFigures({ seconds, megabytes, own, rest }));
}

function seenFigures({ pauseMs, refused, latency }: Seen): Figure[] {
  return [
    latencyFigure("create", latency),
    figure("pause ms", pauseMs),
    figure("refused", refused),
  ];
}

function joinFigures(joined: {
  readonly seconds?: number;
  readonly megabytes?: number;
  readonly own?: number;
  readonly rest?: number;
}): Figure[] {
  return [
    figure("seconds", joined.seconds, 1),
    figure("MB", joined.megabytes),
    figure("CPU s, it", joined.own, 1),
    figure("CPU s, others", joined.rest, 1),
  ];
}

async function fill(cluster: ClusterNodes, tasks: number): Promise<number> {
  const startedMs = performance.now();
  const client = new ApiClient(Number(new URL(cluster.url(await cluster.leader())).port));
  let left = tasks;
  const lane = async (): Promise<void> => {
    while (left > 0) {
      const count = Math.min(batch, left);
      left -= count;
      const body = { tasks: Array.from({ length: count }, newTask) };
      const reply = await client.post("/tasks/batch", body);
      if (reply.status >= 300) throw new Error(`tasks were refused: ${reply.text}`);
    }
  };
  await Promise.all(Array.from({ length: fillLanes }, lane));
  client.close();
  return (performance.now() - startedMs) / 1000;
}

/** With a payload of 100 bytes that cannot be compressed. */
function newTask(): object {
  return { command: "stored", payload: { text: randomBytes(66).toString("base64") } };
}

/** The node that is to join, and then the others, the leader last. */
async function followersFirst(cluster: ClusterNodes): Promise<string[]> {
  const leader = await cluster.leader();
  return [...nodeIds.filter((id) => id !== leader), leader];
}

/** The log goes back as far as in a cluster that has run for long: the others have everything in their stores. */
async function letOthersTrim(
  cluster: ClusterNodes,
  joining: string,
  others: readonly string[],
): Promise<void> {
  const { slot = 0 } = (await cluster.status(others[0] as string)) ?? {};
  // A node that stops has brought everything into its store.
  for (const id of others) {
    await cluster.stopNode(id);
    await cluster.startNode(id);
    await cluster.whole();
  }
  await cluster.stopNode(joining);
  await cluster.wipe(joining);
  await cluster.leader(others);
  await cluster.trim(slot);
}

/** Resolves when the node follows, and has read what another node had read at that moment. */
async function caughtUp(cluster: ClusterNodes, joining: string, other: string): Promise<void> {
  for (;;) {
    const there = await cluster.status(other);
    const here = await cluster.status(joining);
    const isThere = here?.role === "following" || here?.role === "leading";
    if (isThere && there !== undefined && here.slot >= there.slot) return;
    await sleep(askAgainMs);
  }
}

/** CPU seconds of the other nodes and of all log servers that run, from now until it is asked. */
async function cpuWatch(
  cluster: ClusterNodes,
  others: readonly string[],
): Promise<() => Promise<number>> {
  const processes: Process[] = others.flatMap((id) => [
    cluster.node(id).child,
    cluster.logServer(id),
  ]);
  const total = async (): Promise<number> => {
    const times = await Promise.all(processes.map(cpuOf));
    return times.reduce((sum, { seconds }) => sum + seconds, 0);
  };
  const before = await total();
  return async () => (await total()) - before;
}
