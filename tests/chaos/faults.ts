/** What happens to the machines of a campaign. Everything but what a fault ends itself is healed after it. */
import { type Fleet, logNames, nodeNames } from "./fleet.ts";
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

const slowKilobits = 256;
const lostShare = 0.2;
const all = [...nodeNames, ...logNames];

const processFaults: Readonly<Record<string, Fault>> = {
  "kill the leader": async ({ fleet, leader }) => fleet.kill(await leader()),
  "kill a node": ({ fleet, pick }) => fleet.kill(pick(nodeNames)),
  "kill a log server": ({ fleet, pick }) => fleet.kill(pick(logNames)),
  "kill a node and a log server": async ({ fleet, leader, pick }) => {
    await Promise.all([fleet.kill(await leader()), fleet.kill(pick(logNames))]);
  },
  "kill all log servers": async ({ fleet }) => {
    await Promise.all(logNames.map((name) => fleet.kill(name)));
  },
  "kill everything": async ({ fleet }) => {
    await Promise.all(all.map((name) => fleet.kill(name)));
  },
  "pause the leader": async ({ fleet, leader }) => fleet.pause(await leader()),
  "pause a log server": ({ fleet, pick }) => fleet.pause(pick(logNames)),
  "stop the leader in order": async ({ fleet, leader, problem }) => {
    const node = await leader();
    const code = await fleet.stop(node);
    if (code !== null && code !== 0) problem(`${node} was asked to stop and ended with ${code}`);
  },
  "wipe the disk of a node": async ({ fleet, pick }) => {
    const node = pick(nodeNames);
    await fleet.kill(node);
    await fleet.wipe(node);
  },
  "restart all nodes in turn": async ({ fleet, isReady, problem }) => {
    for (const node of nodeNames) {
      const code = await fleet.stop(node);
      if (code !== null && code !== 0) problem(`${node} was asked to stop and ended with ${code}`);
      await fleet.start(node);
      await isReady(node);
    }
  },
};

const networkFaults: Readonly<Record<string, NetworkFault>> = {
  "cut the leader off from the log servers": async ({ ways, leader }) => {
    const node = await leader();
    for (const log of logNames) ways.cut(node, log);
  },
  "cut the leader off with one log server": async ({ ways, leader, pick }) => {
    const inside = [await leader(), pick(logNames)];
    const outside = all.filter((name) => !inside.includes(name));
    for (const one of inside) for (const other of outside) ways.cut(one, other);
  },
  "cut a log server off": ({ ways, pick }) => {
    const log = pick(logNames);
    for (const other of all) if (other !== log) ways.cut(log, other);
  },
  "cut the nodes off from each other": ({ ways }) => {
    for (const [at, node] of nodeNames.entries()) {
      for (const other of nodeNames.slice(at + 1)) ways.cut(node, other);
    }
  },
  "the leader does not hear the log servers": async ({ ways, leader }) => {
    const node = await leader();
    for (const log of logNames) ways.cutOneWay(node, log);
  },
  "the log servers do not hear the leader": async ({ ways, leader }) => {
    const node = await leader();
    for (const log of logNames) ways.cutOneWay(log, node);
  },
  "a log server does not hear the others": ({ ways, pick }) => {
    const log = pick(logNames);
    for (const other of logNames) if (other !== log) ways.cutOneWay(log, other);
  },
  "slow down the leader": async ({ ways, leader }) => ways.slow(await leader(), slowKilobits),
  "slow down a log server": ({ ways, pick }) => ways.slow(pick(logNames), slowKilobits),
  "the leader loses packets": async ({ ways, leader }) => ways.lose(await leader(), lostShare),
  "a log server loses packets": ({ ways, pick }) => ways.lose(pick(logNames), lostShare),
};

/** Of all faults, or of those that leave the network alone. */
export function faultNames({ withNetwork }: { readonly withNetwork: boolean }): string[] {
  return [...Object.keys(processFaults), ...(withNetwork ? Object.keys(networkFaults) : [])];
}

export async function strike(name: string, field: Field, ways: Ways | undefined): Promise<void> {
  await processFaults[name]?.(field);
  if (ways !== undefined) await networkFaults[name]?.({ ...field, ways });
}
