/** Workers: honest ones, slow ones, and ones that die without a word. */
import type { ClaimTasksInput } from "../../../packages/server/src/features/tasks/claim-tasks.ts";
import type { SubmitResultInput } from "../../../packages/server/src/features/tasks/submit-result.ts";
import { type Caller, commands, workers } from "../plan.ts";
import type { Fleet, Hold } from "./fleet.ts";

export async function claim(fleet: Fleet): Promise<void> {
  const { random } = fleet;
  const worker = random.pick(workers);
  const input: ClaimTasksInput = {
    commands: wanted(fleet, worker),
    leaseSeconds: fleet.chance(0.3) ? 0 : 1 + random.int(15),
    waitSeconds: fleet.chance(0.4) ? 1 + random.int(5) : 0,
    count: fleet.chance(0.6) ? 1 : 1 + random.int(5),
  };
  const abortAfterMs = fleet.chance(0.1) ? random.next() * 3000 : undefined;
  const options = abortAfterMs === undefined ? {} : { abortAfterMs };
  const answer = await fleet.calls.send("claimTasks", worker, input, options);
  // A reply that is lost leaves tasks with a worker that does not know of them.
  if (answer?.ok !== true || fleet.chance(0.05)) return;
  for (const { task } of answer.value) {
    fleet.know(task.id, worker.tenant);
    fleet.hold({ worker, id: task.id, leaseToken: task.leaseToken });
  }
}

function wanted(fleet: Fleet, worker: Caller): string[] {
  if (fleet.chance(0.5)) return [];
  const mayAll = !worker.subject.endsWith("picky");
  const from = mayAll || fleet.chance(0.2) ? commands : ["email", "Sync.Users"];
  return Array.from({ length: 1 + fleet.random.int(3) }, () => fleet.random.pick(from));
}

/** Does something with a task that some worker holds. */
export async function workOn(fleet: Fleet): Promise<void> {
  if (fleet.holds.length === 0) return claim(fleet);
  const hold = fleet.random.pick(fleet.holds);
  await actOn(fleet, hold);
}

/** The same with one that is held no more, with an old token, or as somebody else. */
export async function actWrongly(fleet: Fleet): Promise<void> {
  const from = [...fleet.stale, ...fleet.holds];
  if (from.length === 0) return;
  const hold = fleet.random.pick(from);
  const other = fleet.random.pick(workers);
  switch (fleet.random.int(5)) {
    case 0:
      return actOn(fleet, { ...hold, worker: other });
    case 1:
      return actOn(fleet, { ...hold, leaseToken: hold.leaseToken - 1 });
    case 2:
      return actOn(fleet, { ...hold, leaseToken: hold.leaseToken + 1 });
    case 3: {
      const known = fleet.known.length === 0 ? hold : fleet.random.pick(fleet.known);
      return actOn(fleet, { ...hold, id: known.id });
    }
    default:
      return actOn(fleet, hold);
  }
}

async function actOn(fleet: Fleet, hold: Hold): Promise<void> {
  const { calls, random } = fleet;
  const { worker, id } = hold;
  const leaseToken = fleet.chance(0.6) ? hold.leaseToken : undefined;
  switch (random.int(9)) {
    case 0:
    case 1: {
      const extendSeconds = fleet.chance(0.3) ? 0 : 1 + random.int(12);
      const isSaid = fleet.chance(0.3);
      const progress = isSaid ? { percent: fleet.random.int(101), text: fleet.mark() } : undefined;
      const logs = isSaid && fleet.chance(0.5) ? [fleet.mark()] : [];
      const input = { id, leaseToken, extendSeconds, progress, logs };
      await calls.send("extendLease", worker, input);
      return;
    }
    case 2: {
      fleet.letGo(hold);
      const delaySeconds = fleet.chance(0.5) ? 0 : random.int(6);
      await calls.send("nackTask", worker, { id, leaseToken, delaySeconds, reason: fleet.mark() });
      return;
    }
    case 3:
    case 4: {
      fleet.letGo(hold);
      const interrupted = fleet.chance(0.5);
      await calls.send("abandonTask", worker, { id, leaseToken, interrupted });
      return;
    }
    case 5:
      // Dies without a word: the lease has to run out.
      fleet.letGo(hold);
      return;
    default:
      return submit(fleet, hold, leaseToken);
  }
}

async function submit(fleet: Fleet, hold: Hold, leaseToken: number | undefined): Promise<void> {
  fleet.letGo(hold);
  const { calls } = fleet;
  const { worker, id } = hold;
  if (fleet.chance(0.2)) {
    const content = (async function* () {
      yield Buffer.from("a file");
    })();
    const named = { name: "before", worker: "", contentType: "", host: "" };
    const file = { ...named, declaredBytes: 6, content };
    await calls.send("uploadArtifact", worker, { id, leaseToken, ...file });
  }
  const input = submission(fleet, { id, leaseToken });
  if (fleet.chance(0.2)) {
    const others = fleet.holds.filter((each) => each.worker === worker).slice(0, 3);
    const more = others.map((each) => submission(fleet, { id: each.id, leaseToken: undefined }));
    for (const each of others) fleet.letGo(each);
    await calls.send("submitResults", worker, [input, ...more]);
    return;
  }
  const sends = [calls.send("submitResult", worker, input)];
  if (fleet.chance(0.1)) {
    const again = submission(fleet, { id, leaseToken });
    sends.push(calls.send("submitResult", worker, { ...again, status: input.status }));
  }
  await Promise.all(sends);
}

function submission(
  fleet: Fleet,
  of: Pick<SubmitResultInput, "id" | "leaseToken">,
): SubmitResultInput {
  const mark = fleet.mark();
  const isFailed = fleet.chance(0.2);
  const link = { name: "log", url: "https://files.example/log" };
  const none = { contentBase64: "", contentType: "" };
  const artifacts = [
    ...(fleet.chance(0.1) ? [{ ...link, ...none }] : []),
    ...(fleet.chance(0.1) ? [{ name: "file", url: "", ...none, contentBase64: "aGk=" }] : []),
  ];
  return {
    ...of,
    workerId: "",
    status: isFailed ? "FAILED" : "COMPLETED",
    resultJson: isFailed ? undefined : JSON.stringify({ mark }),
    error: isFailed ? mark : "",
    artifacts,
  };
}
