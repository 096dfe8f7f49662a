/** What happens to the machines of a campaign. Everything but what a fault ends itself is healed after it. */
import { type Fleet, logNames, nodeNames } from "./fleet.ts";
import type { Network } from "./network.ts";

export interface Field {
  readonly fleet: Fleet;
  readonly network: Network;
  readonly pick: <T>(from: readonly T[]) => T;
  /** The node that leads the first shard, or any when nobody knows. */
  readonly leader: () => Promise<string>;
  /** Resolves when the node knows who leads. */
  readonly isReady: (node: string) => Promise<void>;
  readonly problem: (text: string) => void;
}

type Fault = (field: Field) => void | Promise<void>;

const slowKilobits = 256;
const lostShare = 0.2;
const all = [...nodeNames, ...logNames];

export const faults: Readonly<Record<string, Fault>> = {
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
  "cut the leader off from the log servers": async ({ network, leader }) => {
    const node = await leader();
    for (const log of logNames) network.cut(node, log);
  },
  "cut the leader off with one log server": async ({ network, leader, pick }) => {
    const inside = [await leader(), pick(logNames)];
    const outside = all.filter((name) => !inside.includes(name));
    for (const one of inside) for (const other of outside) network.cut(one, other);
  },
  "cut a log server off": ({ network, pick }) => {
    const log = pick(logNames);
    for (const other of all) if (other !== log) network.cut(log, other);
  },
  "cut the nodes off from each other": ({ network }) => {
    for (const [at, node] of nodeNames.entries()) {
      for (const other of nodeNames.slice(at + 1)) network.cut(node, other);
    }
  },
  "the leader does not hear the log servers": async ({ network, leader }) => {
    const node = await leader();
    for (const log of logNames) network.cutOneWay(node, log);
  },
  "the log servers do not hear the leader": async ({ network, leader }) => {
    const node = await leader();
    for (const log of logNames) network.cutOneWay(log, node);
  },
  "a log server does not hear the others": ({ network, pick }) => {
    const log = pick(logNames);
    for (const other of logNames) if (other !== log) network.cutOneWay(log, other);
  },
  "slow down the leader": async ({ network, leader }) => network.slow(await leader(), slowKilobits),
  "slow down a log server": ({ network, pick }) => network.slow(pick(logNames), slowKilobits),
  "the leader loses packets": async ({ network, leader }) =>
    network.lose(await leader(), lostShare),
  "a log server loses packets": ({ network, pick }) => network.lose(pick(logNames), lostShare),
};
