/** `cluster add` and `cluster remove`: ask until the node is in, or out, and say what is left to do. */
import type { AddedNode, RemovedNode } from "@codeq/client";
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";
import { logName } from "./cluster.ts";

const againMs = 1000;

export async function add(call: Call): Promise<number> {
  const node = call.word(0);
  return await follow<AddedNode>(call, `/admin/cluster/add`, {
    isDone: ({ state }) => state === "added",
    textOf: ({ state, logs, members }) => {
      if (state === "absent") {
        return `${node} does not answer yet; start it with clusterMembers: ${members}`;
      }
      const late = logs.filter(({ role }) => role === "waiting" || role === "behind");
      const names = late.map(({ shard }) => logName(shard)).join(", ");
      return names === "" ? "the log servers take the new one in" : `the node copies ${names}`;
    },
    doneText: () => `${node} is a node of the cluster`,
  });
}

export async function remove(call: Call): Promise<number> {
  const node = call.word(0);
  return await follow<RemovedNode>(call, `/admin/cluster/remove`, {
    isDone: ({ state }) => state === "removed",
    textOf: ({ state, moving }) => {
      if (state === "stop") return `node ${node} leads nothing and keeps no log; stop it now`;
      return `other log servers copy ${moving.map(logName).join(", ")}`;
    },
    doneText: () => `node ${node} was removed; do not start it again with its old settings`,
  });
}

interface Steps<T> {
  readonly isDone: (answer: T) => boolean;
  /** What there is to say while it is not done. */
  readonly textOf: (answer: T) => string;
  readonly doneText: () => string;
}

interface Members {
  readonly members: string;
  readonly outdated: readonly string[];
}

/** Ends when it is done, or when somebody stops the command; both may be repeated. */
async function follow<T extends Members>(
  call: Call,
  path: string,
  steps: Steps<T>,
): Promise<number> {
  const api = await call.api();
  const stopped = call.host.stopped();
  let said = "";
  while (!stopped.aborted) {
    const { text } = await api.post(path, JSON.stringify({ node: call.word(0) }));
    const answer = JSON.parse(text) as T;
    if (steps.isDone(answer)) {
      if (call.json) call.printJson(answer);
      else tellDone(call, steps.doneText(), answer);
      return exitCodes.ok.code;
    }
    const now = steps.textOf(answer);
    if (now !== said) call.note(now);
    said = now;
    await pause(call, stopped);
  }
  call.note("stopped; run the command again to go on");
  return exitCodes.taskFailed.code;
}

function tellDone(call: Call, text: string, { members, outdated }: Members): void {
  call.print(text);
  if (outdated.length === 0) return;
  call.print(`set clusterMembers: ${members}`);
  call.print(`on ${outdated.join(", ")}, and restart these nodes one after the other`);
}

function pause({ host }: Call, stopped: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const cancel = host.clock.after(againMs, resolve);
    const stop = (): void => {
      cancel();
      resolve();
    };
    stopped.addEventListener("abort", stop, { once: true });
  });
}
