/** What happens to the machines of a campaign. Everything but what a fault ends itself is healed after it. */
import { setTimeout as pause } from "node:timers/promises";
import { type Fleet, logPeerPort, nodeNames } from "./fleet.ts";
import type { Ways } from "./network.ts";

export interface Field {
  readonly fleet: Fleet;
  readonly pick: <T>(from: readonly T[]) => T;
  /** The node that leads the first shard, or any when nobody knows. */
  readonly leader: () => Promise<string>;
  /** Resolves when the node knows who leads. */
  readonly isReady: (node: string) => Promise<void>;
  readonly problem: (text: string) => void;
}

type Fault = (field: Field) => void | Promise<void>;
type NetworkFault = (field: Field & { readonly ways: Ways }) => void | Promise<void>;

const slowKilobits = 512;
const lostShare = 0.2;
const hourMs = 60 * 60 * 1000;
const flaps = 6;
/** On a machine that does nothing else it takes three. */
const restartSecondsMax = 25;
const flapMs = { least: 150, more: 900 } as const;

const processFaults: Readonly<Record<string, Fault>> = {
  "kill the leader": async ({ fleet, leader }) => fleet.kill(await leader()),
  "kill a node": ({ fleet, pick }) => fleet.kill(pick(nodeNames)),
  "kill a log server": ({ fleet, pick }) => fleet.killLog(pick(nodeNames)),
  "kill the machine of the leader": async ({ fleet, leader }) => fleet.killMachine(await leader()),
  "kill another machine": async ({ fleet, pick, leader }) => {
    fleet.killMachine(pick(others(await leader())));
  },
  "kill all log servers": async ({ fleet }) => {
    await Promise.all(nodeNames.map((node) => fleet.killLog(node)));
  },
  "kill everything": async ({ fleet }) => {
    await Promise.all(nodeNames.map((node) => fleet.killMachine(node)));
  },
  "pause the leader": async ({ fleet, leader }) => fleet.pauseNode(await leader()),
  "pause a log server": ({ fleet, pick }) => fleet.pauseLog(pick(nodeNames)),
  "pause the machine of the leader": async ({ fleet, leader }) => {
    const node = await leader();
    fleet.pauseNode(node);
    await fleet.pauseLog(node);
  },
  "stop the leader in order": async ({ fleet, leader, problem }) => {
    const node = await leader();
    const code = await fleet.stop(node);
    if (code !== null && code !== 0) problem(`${node} was asked to stop and ended with ${code}`);
  },
  "wipe the disk of a machine": async ({ fleet, pick }) => {
    const node = pick(nodeNames);
    await fleet.killMachine(node);
    await fleet.wipe(node);
    await fleet.start(node);
  },
  "restart all nodes in turn": async ({ fleet, isReady, problem }) => {
    for (const node of nodeNames) {
      const code = await fleet.stop(node);
      if (code !== null && code !== 0) problem(`${node} was asked to stop and ended with ${code}`);
      await fleet.start(node);
      await isReady(node);
    }
  },
  "the clock of the leader steps ahead": async ({ fleet, leader, pick }) => {
    await fleet.stepClock(await leader(), pick([1, 2]) * hourMs);
  },
  "the clock of the leader steps back": async ({ fleet, leader, pick }) => {
    await fleet.stepClock(await leader(), -pick([1, 2]) * hourMs);
  },
};

/** Faults that need disks of limited size, which only root can make. */
const diskFaults: Readonly<Record<string, Fault>> = {
  "fill the disk of the leader": async ({ fleet, leader }) => fleet.fillDisk(await leader()),
  "fill the disk of another machine": async ({ fleet, leader, pick }) => {
    await fleet.fillDisk(pick(others(await leader())));
  },
  "fill a disk, and free it before another machine is killed": async ({ fleet, pick, isReady }) => {
    const full = pick(nodeNames);
    await fleet.fillDisk(full);
    await pause(3000);
    await fleet.heal();
    await isReady(full);
    await fleet.logsVote();
    await fleet.killMachine(pick(others(full)));
  },
};

const networkFaults: Readonly<Record<string, NetworkFault>> = {
  "isolate the leader": async ({ ways, leader }) => isolate(ways, await leader()),
  "isolate another machine": async ({ ways, leader, pick }) => {
    isolate(ways, pick(others(await leader())));
  },
  "cut the leader off from one machine": async ({ ways, leader, pick }) => {
    const node = await leader();
    ways.cut(node, pick(others(node)));
  },
  "cut the other two off from each other": async ({ ways, leader }) => {
    const [one = "", other = ""] = others(await leader());
    ways.cut(one, other);
  },
  "cut all machines off from each other": ({ ways }) => {
    for (const node of nodeNames) isolate(ways, node);
  },
  "the leader does not hear the others": async ({ ways, leader }) => {
    const node = await leader();
    for (const other of others(node)) ways.cutOneWay(node, other);
  },
  "the others do not hear the leader": async ({ ways, leader }) => {
    const node = await leader();
    for (const other of others(node)) ways.cutOneWay(other, node);
  },
  "one machine does not hear the leader": async ({ ways, leader, pick }) => {
    const node = await leader();
    ways.cutOneWay(pick(others(node)), node);
  },
  "the log server of the leader loses the others": async ({ ways, leader }) => {
    // It still answers its clients.
    ways.cutPort(await leader(), logPeerPort);
  },
  "a log server loses the others": ({ ways, pick }) => ways.cutPort(pick(nodeNames), logPeerPort),
  "restart a node while another machine is cut off": async (field) => {
    const { fleet, ways, pick, isReady, problem } = field;
    const node = pick(nodeNames);
    isolate(ways, pick(others(node)));
    const startMs = performance.now();
    await fleet.stop(node);
    await fleet.start(node);
    await isReady(node);
    const seconds = (performance.now() - startMs) / 1000;
    if (seconds > restartSecondsMax) problem(`${node} took ${seconds.toFixed(1)} s to start`);
  },
  "the links of the leader flap": async (field) => flap(field, await field.leader()),
  "the links of a machine flap": (field) => flap(field, field.pick(nodeNames)),
  "slow down the leader": async ({ ways, leader }) => ways.slow(await leader(), slowKilobits),
  "slow down a machine": ({ ways, pick }) => ways.slow(pick(nodeNames), slowKilobits),
  "the leader loses packets": async ({ ways, leader }) => ways.lose(await leader(), lostShare),
  "a machine loses packets": ({ ways, pick }) => ways.lose(pick(nodeNames), lostShare),
};

function others(node: string): readonly string[] {
  return nodeNames.filter((each) => each !== node);
}

/** From the other machines; clients still reach it. */
function isolate(ways: Ways, node: string): void {
  for (const other of others(node)) ways.cut(node, other);
}

async function flap({ ways, pick }: Field & { readonly ways: Ways }, node: string): Promise<void> {
  const times = Array.from({ length: flapMs.more }, (_, at) => flapMs.least + at);
  for (let count = 0; count < flaps; count += 1) {
    isolate(ways, node);
    await pause(pick(times));
    ways.heal();
    await pause(pick(times));
  }
}

/** Of all faults, or of those that leave network and disks alone. */
export function faultNames({ withNetwork }: { readonly withNetwork: boolean }): string[] {
  const more = withNetwork ? [...Object.keys(networkFaults), ...Object.keys(diskFaults)] : [];
  return [...Object.keys(processFaults), ...more];
}

export async function strike(name: string, field: Field, ways: Ways | undefined): Promise<void> {
  await processFaults[name]?.(field);
  if (ways === undefined) return;
  await diskFaults[name]?.(field);
  await networkFaults[name]?.({ ...field, ways });
}
