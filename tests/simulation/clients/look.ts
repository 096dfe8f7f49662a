/** Readers and administrators: they look at tasks, results and counts, and clean up. */
import { taskPlaces } from "@codeq/protocol/api";
import type { TaskId } from "@codeq/queue";
import type { Explanation } from "../../../packages/server/src/features/explain/explain-task.ts";
import { admins, type Caller, commands, producers, workers } from "../plan.ts";
import type { Fleet } from "./fleet.ts";
import { payload } from "./produce.ts";

export async function readTask(fleet: Fleet): Promise<void> {
  if (fleet.known.length === 0) return;
  const { id, tenant } = fleet.random.pick(fleet.known);
  const readers = [...producers, ...workers];
  // One in ten asks for what belongs to somebody else.
  const own = readers.filter((reader) => reader.tenant === tenant);
  const reader = fleet.random.pick(fleet.chance(0.1) ? readers : own);
  if (fleet.chance(0.1)) {
    const told = await fleet.calls.send("explainTask", reader, { id });
    if (told?.ok === true) await claimExplained(fleet, told.value);
    return;
  }
  if (fleet.chance(0.5)) {
    await fleet.calls.send("getTask", reader, { id, consistency: "" });
    return;
  }
  const waitSeconds = fleet.chance(0.3) ? 1 + fleet.random.int(5) : 0;
  const abortAfterMs = fleet.random.next() * 3000;
  const options = fleet.chance(0.1) ? { abortAfterMs } : {};
  await fleet.calls.send("getResult", reader, { id, waitSeconds }, options);
}

/** Asks for as many tasks of its queue as should bring the task that was explained. */
async function claimExplained(fleet: Fleet, { task, ahead }: Explanation): Promise<void> {
  if (task.place.in !== "ready" || ahead === undefined) return;
  const worker = workers.find(({ subject }) => subject === `${task.tenantId}-worker-1`) as Caller;
  const count = ahead.higher + ahead.older + 1;
  const commands = [task.command];
  const input = { commands, leaseSeconds: 0, waitSeconds: 0, count };
  const answer = await fleet.calls.send("claimTasks", worker, input);
  if (answer?.ok !== true) return;
  for (const { task: claimed } of answer.value) {
    fleet.hold({ worker, id: claimed.id, leaseToken: claimed.leaseToken });
  }
}

export async function administer(fleet: Fleet): Promise<void> {
  const { calls, random, world } = fleet;
  const caller = fleet.chance(0.1) ? random.pick(producers) : random.pick(admins);
  switch (random.int(17)) {
    case 15:
    case 16:
      return runJob(fleet, caller);
    case 12:
    case 13:
    case 14:
      return editSome(fleet, caller);
    case 10:
    case 11:
      return cancelSome(fleet, caller);
    case 8:
      await calls.send("pauseQueue", caller, { command: random.pick(commands), reason: "x" });
      return;
    case 9:
      await calls.send("resumeQueue", caller, { command: random.pick(commands) });
      return;
    case 4:
    case 5:
      return search(fleet, caller);
    case 6:
    case 7:
      return repair(fleet, caller);
    case 0:
      await calls.send("listQueues", caller, { view: "details" });
      return;
    case 1:
      await calls.send("getQueue", caller, { command: random.pick(["render", "EMAIL", "none"]) });
      return;
    default: {
      const ms = world.wallMs + (random.next() - 0.3) * 200_000;
      const before = fleet.chance(0.4) ? "" : new Date(Math.floor(ms)).toISOString();
      await calls.send("cleanUp", caller, {
        before,
        limit: fleet.chance(0.5) ? 0 : 1 + random.int(9),
      });
    }
  }
}

/** Begins a job, or pauses, resumes or aborts one. */
async function runJob(fleet: Fleet, caller: Caller): Promise<void> {
  const { calls, random } = fleet;
  const jobs = await calls.send("listJobs", caller, {});
  const [id] = jobs?.ok === true ? jobs.value.jobs.map((job) => job.id) : [];
  if (id !== undefined && fleet.chance(0.5)) {
    await calls.send(random.pick(["pauseJob", "resumeJob", "resumeJob", "abortJob"]), caller, {
      id,
    });
    return;
  }
  const drawn = random.pick(["replay", "replay", "delete", "cancel"] as const);
  const action = drawn === "cancel" && fleet.times.next() < 0.5 ? "move" : drawn;
  const isAll = action === "replay" && fleet.chance(0.7);
  const filter = isAll ? {} : someFilter(fleet);
  const perSecond = 1 + random.int(5);
  const moveTo = action === "move" ? fleet.times.pick(commands) : undefined;
  const isCanary = action === "replay" && fleet.chance(0.3);
  await calls.send("createJob", caller, {
    ...filter,
    action,
    isAll,
    perSecond,
    moveTo,
    isCanary,
    canaryFirst: isCanary ? 1 + random.int(3) : 10,
    canaryFactor: 2,
    canaryFailurePercent: 50,
    isDryRun: fleet.chance(0.1),
  });
}

/** Some pages of what matches something. */
async function search(fleet: Fleet, caller: Caller): Promise<void> {
  const { calls, random } = fleet;
  const { priority, ...rest } = someFilter(fleet);
  const filter = {
    ...rest,
    priority: priority?.toString(),
    ...(fleet.chance(0.7) ? { place: somePlace(fleet) } : {}),
  };
  const order = fleet.chance(0.5) ? "newest" : "oldest";
  const limit = fleet.chance(0.5) ? 1 + random.int(5) : 100;
  let after: string | undefined = "";
  for (let pages = 0; pages < 3 && after !== undefined; pages++) {
    const page: Awaited<ReturnType<typeof calls.send<"listTasks">>> = await calls.send(
      "listTasks",
      caller,
      { ...filter, order, limit, after },
    );
    after = page?.ok === true ? page.value.next : undefined;
  }
}

/** Looks at a task, and replays or deletes dead letters: one, some, or all. */
async function repair(fleet: Fleet, caller: Caller): Promise<void> {
  const { calls, random } = fleet;
  const dead = [...fleet.world.ledger.tasks.values()].filter(({ place }) => place.in === "dead");
  const ids = [...dead, ...fleet.known].map(({ id }) => id);
  if (ids.length === 0) return;
  const id = random.pick(ids);
  const owner = fleet.world.ledger.tasks.get(id)?.tenantId;
  const own = admins.find(({ tenant }) => tenant === owner);
  const who = fleet.chance(0.9) && own !== undefined ? own : caller;
  const some = fleet.chance(0.5)
    ? { ids: [id, random.pick(ids)], isAll: false }
    : { ids: [], ...someFilter(fleet), isAll: false };
  const many = { ...some, limit: random.int(3) * 5, isDryRun: fleet.chance(0.2) };
  switch (random.int(8)) {
    case 0:
      await calls.send("inspectTask", who, { id: fleet.chance(0.5) ? id : id.slice(-8) });
      return;
    case 1:
      await calls.send("deleteTask", who, { id });
      return;
    case 2:
      await calls.send("deleteDeadLetters", who, many);
      return;
    case 3:
      await calls.send("replayDeadLetters", who, many);
      return;
    default:
      await calls.send("replayTask", who, { id });
  }
}

/** Mostly a task of its own, whatever it is doing. */
async function cancelSome(fleet: Fleet, caller: Caller): Promise<void> {
  const { calls, random } = fleet;
  if (fleet.known.length === 0) return;
  const { id, tenant } = random.pick(fleet.known);
  const graceSeconds = fleet.chance(0.3) ? 0 : 1 + random.int(8);
  const isOwn = fleet.chance(0.9);
  if (fleet.chance(0.5)) {
    const admin = isOwn ? admins.find((each) => each.tenant === tenant) : caller;
    await calls.send("cancelAnyTask", admin ?? caller, { id, graceSeconds });
    return;
  }
  const producer = isOwn ? producers.find((each) => each.tenant === tenant) : caller;
  await calls.send("cancelTask", producer ?? caller, { id, graceSeconds });
}

/** Mostly a task of its own that waits: another queue, priority, payload or time, or some of these. */
async function editSome(fleet: Fleet, caller: Caller): Promise<void> {
  const { calls, random, world } = fleet;
  const waiting = [...world.ledger.tasks.values()].filter(({ place }) => {
    return place.in === "ready" || place.in === "delayed";
  });
  const tasks = fleet.chance(0.8) && waiting.length > 0 ? waiting : fleet.known;
  if (tasks.length === 0) return;
  const { id } = random.pick<{ readonly id: TaskId }>(tasks);
  const owner = world.ledger.tasks.get(id)?.tenantId;
  const own = admins.find(({ tenant }) => tenant === owner);
  const soon = (): string => new Date(world.wallMs + random.int(5000) - 1000).toISOString();
  const edit = {
    command: fleet.chance(0.3) ? random.pick(commands) : undefined,
    priority: fleet.chance(0.3) ? random.int(10) : undefined,
    payload: fleet.chance(0.3) ? payload(fleet) : undefined,
    runAt: fleet.chance(0.2) ? soon() : undefined,
    delaySeconds: fleet.chance(0.3) ? random.int(8) : undefined,
  };
  const isEmpty = Object.values(edit).every((value) => value === undefined);
  const input = { id, ...edit, ...(isEmpty ? { priority: 1 } : {}) };
  await calls.send("editTask", fleet.chance(0.9) && own !== undefined ? own : caller, input);
}

function someFilter(fleet: Fleet) {
  const { random } = fleet;
  switch (random.int(5)) {
    case 4:
      return { tag: random.pick(["red", "blue"]) };
    case 0:
      return { command: random.pick(commands) };
    case 1:
      return { priority: random.int(10) };
    case 2:
      return { error: random.pick(["lease", "MAX", "m"]) };
    default:
      return { command: random.pick(commands), error: "m" };
  }
}

function somePlace(fleet: Fleet): (typeof taskPlaces)[number] {
  return fleet.random.pick(taskPlaces);
}

/** Lets every queue go on, however often it takes until the server agrees. */
export async function resumeAll(fleet: Fleet, isOver: () => boolean): Promise<void> {
  for (const admin of admins) {
    for (const command of commands) {
      for (let isDone = false; !isDone && !isOver(); ) {
        isDone = (await fleet.calls.send("resumeQueue", admin, { command }))?.ok === true;
        if (isDone) continue;
        await new Promise<void>((resolve) => {
          fleet.world.clock.after(200, resolve);
        });
      }
    }
  }
}
