/** Producers: they create tasks, repeat themselves, and reuse keys rightly and wrongly. */
import type { TaskId } from "@codeq/queue";
import type { CreateTaskInput } from "../../../packages/server/src/features/tasks/create-task.ts";
import { type Caller, commands, producers, workers } from "../plan.ts";
import { type Fleet, isUnanswered } from "./fleet.ts";

export async function createOne(fleet: Fleet): Promise<void> {
  const caller = fleet.random.pick(producers);
  const input = newTask(fleet);
  if (input.idempotencyKey !== "") fleet.keys.push({ tenant: caller.tenant, input });
  await send(fleet, caller, input);
  // A producer whose network hiccups sends the same request twice at once.
}

export async function createTwice(fleet: Fleet): Promise<void> {
  const caller = fleet.random.pick(producers);
  const input = { ...newTask(fleet), idempotencyKey: fleet.mark() };
  fleet.keys.push({ tenant: caller.tenant, input });
  await Promise.all([send(fleet, caller, input), send(fleet, caller, input)]);
}

export async function createMany(fleet: Fleet): Promise<void> {
  const caller = fleet.random.pick(producers);
  const inputs = Array.from({ length: 1 + fleet.random.int(6) }, () => newTask(fleet));
  if (fleet.chance(0.1)) inputs.push({ ...newTask(fleet), command: "not a command" });
  const answer = await fleet.calls.send("createTasks", caller, inputs);
  if (answer === undefined || !answer.ok) return;
  for (const each of answer.value) if (each.ok) fleet.know(each.value.task.id, caller.tenant);
}

/** Sends again what got no answer. */
export async function retryLost(fleet: Fleet): Promise<void> {
  const lost = fleet.lost.shift();
  if (lost !== undefined) await send(fleet, lost.caller, lost.input);
}

/** The same key with the same request, with another payload, or by another tenant. */
export async function reuseKey(fleet: Fleet): Promise<void> {
  if (fleet.keys.length === 0) return createOne(fleet);
  const { tenant, input } = fleet.random.pick(fleet.keys);
  const own = producers.find((each) => each.tenant === tenant) as Caller;
  const kind = fleet.random.int(4);
  if (kind === 0) {
    const idempotencyMode = fleet.modes.next() < 0.5 ? "first" : "";
    return send(fleet, own, { ...input, payload: payload(fleet), idempotencyMode });
  }
  if (kind === 1) return send(fleet, own, { ...input, command: input.command.toUpperCase() });
  if (kind === 2) return send(fleet, fleet.random.pick(producers), input);
  return send(fleet, own, input);
}

/** What the server has to refuse. */
export async function createBadly(fleet: Fleet): Promise<void> {
  const input = newTask(fleet);
  const caller = fleet.random.pick(producers);
  const nobody = { ...caller, token: "token-of-nobody" };
  switch (fleet.random.int(5)) {
    case 0:
      await fleet.calls.send("createTask", nobody, input);
      return;
    case 1:
      await fleet.calls.send("createTask", fleet.random.pick(workers), input);
      return;
    case 2:
      await fleet.calls.send("createTask", caller, { ...input, command: "no/slash" });
      return;
    case 3:
      await fleet.calls.send("createTask", caller, { ...input, webhook: "ftp://host/" });
      return;
    default:
      await fleet.calls.send("createTask", caller, { ...input, delaySeconds: -1 });
  }
}

async function send(fleet: Fleet, caller: Caller, input: CreateTaskInput): Promise<void> {
  const answer = await fleet.calls.send("createTask", caller, input);
  const isLost = isUnanswered(answer) || fleet.chance(0.05);
  if (isLost && fleet.lost.length < 20) fleet.lost.push({ caller, input });
  else if (answer?.ok === true) fleet.know(answer.value.task.id as TaskId, caller.tenant);
}

function newTask(fleet: Fleet): CreateTaskInput {
  const { random } = fleet;
  const isLate = fleet.chance(0.25);
  const delaySeconds = isLate ? 1 + random.int(fleet.chance(0.2) ? 60 : 4) : 0;
  return {
    command: random.pick(commands),
    payload: payload(fleet),
    priority: fleet.chance(0.5) ? 0 : random.int(12) - 1,
    webhook: fleet.chance(0.25) ? "https://hooks.example/result" : "",
    maxAttempts: fleet.chance(0.5) ? 0 : 1 + random.int(4),
    idempotencyKey: fleet.chance(0.25) ? fleet.mark() : "",
    idempotencyMode: "",
    unique: undefined,
    batchId: "",
    runAt: fleet.chance(0.05) ? soon(fleet) : "",
    delaySeconds,
    timeoutSeconds: someSeconds(fleet),
    ttlSeconds: someSeconds(fleet),
    tags: fleet.chance(0.2) ? [random.pick(["red", "blue"])] : [],
    traceParent: "",
    traceState: "",
  };
}

/** For one task in seven. */
function someSeconds({ times }: Fleet): number {
  return times.next() < 0.15 ? 1 + times.int(20) : 0;
}

function soon(fleet: Fleet): string {
  const ms = fleet.world.wallMs + fleet.random.int(5000) - 1000;
  return new Date(ms).toISOString();
}

/** Now and then too long to travel with the task, or larger than a whole segment of the log. */
export function payload(fleet: Fleet): string {
  const chars = fleet.chance(0.02) ? 5000 : fleet.random.int(fleet.chance(0.3) ? 1000 : 200);
  return JSON.stringify({ mark: fleet.mark(), text: "x".repeat(chars) });
}
