/**
 * A bug for every checker: a twin of some part that breaks one promise. They are planted into a
 * running composition from outside, so no file of the product knows of them.
 */
import { create, FaultError, type Log, type Op, put, remove } from "@codeq/engine";
import type { Task } from "@codeq/queue";
import type { Durability } from "../../packages/server/src/config/settings.ts";
import type { Core } from "../../packages/server/src/start/compose.ts";
import { payloadKey, taskKey } from "../../packages/server/src/store/keys.ts";
import { addChange, keysOf } from "../../packages/server/src/store/keys-of.ts";
import { decodeTask, encodeTask, resultIn } from "../../packages/server/src/store/task-codec.ts";
import type { CheckerName } from "./checkers/index.ts";
import type { Plants } from "./world.ts";

export interface PlantedBug {
  readonly checker: CheckerName;
  /** What is wrong, in one line. */
  readonly bug: string;
  readonly plants: Plants;
  readonly durability?: Durability;
}

/** Lets a function see, and replace, the ops of every commit. */
function onCommit(core: Core, change: (ops: readonly Op[]) => readonly Op[]): void {
  const commit = core.engine.commit.bind(core.engine);
  core.engine.commit = (ops) => commit(change(ops));
}

const placeIn = ({ row }: Op): string | undefined => (row as Task | undefined)?.place.in;

function rewriteTasks(core: Core, rewrite: (task: Task) => Task): void {
  onCommit(core, (ops) =>
    ops.map((op) => {
      if (!op.key.startsWith("codeq/tasks/") || op.value.length === 0) return op;
      const task = decodeTask(Buffer.from(op.value as string));
      return task === undefined
        ? op
        : { ...op, value: encodeTask(rewrite(task), resultIn(op.value as string) ?? "") };
    }),
  );
}

/** A log like the given one but for some of its methods. */
function twinOf(log: Log, different: Partial<Log>): Log {
  return {
    get firstIndex() {
      return log.firstIndex;
    },
    get lastIndex() {
      return log.lastIndex;
    },
    get bytes() {
      return log.bytes;
    },
    append: (frame) => log.append(frame),
    sync: () => log.sync(),
    readFrom: (index) => log.readFrom(index),
    trim: (index) => log.trim(index),
    close: () => log.close(),
    ...different,
  };
}

const isDelete = (op: Op): boolean => op.value.length === 0;

export const plantedBugs: readonly PlantedBug[] = [
  {
    checker: "keysMatchRecords",
    bug: "an index key is not deleted when a task leaves it",
    plants: {
      core: (core) => onCommit(core, (ops) => ops.map((op) => ({ ...op, before: undefined }))),
    },
  },
  {
    checker: "keysMatchRecords",
    bug: "an index key is not written",
    plants: {
      core: (core) =>
        onCommit(core, (ops) =>
          ops.map((op) => (placeIn(op) === "done" ? { ...op, row: undefined } : op)),
        ),
    },
  },
  {
    checker: "acknowledgedIsKept",
    bug: "the log does not sync before it acknowledges",
    plants: { logDurability: "os" },
    durability: "fsync",
  },
  {
    checker: "acknowledgedIsKept",
    bug: "the log is synced much less often than the interval says",
    plants: { log: (log) => twinOf(log, { sync: async () => {} }) },
    durability: "interval",
  },
  {
    checker: "conservation",
    bug: "a sweep removes tasks that wait",
    plants: {
      core: (core, world) => {
        const enqueue = core.broker.enqueue.bind(core.broker);
        core.broker.enqueue = (request) => {
          const [task] = world.ledger.tasks.values();
          if (task?.place.in === "ready") {
            core.engine.commit([remove(taskKey(task.id), task), remove(payloadKey(task.id))]);
          }
          return enqueue(request);
        };
      },
    },
  },
  {
    checker: "conservation",
    bug: "a task is put into two places",
    plants: {
      core: (core) =>
        onCommit(core, (ops) => {
          const row = ops.find((op) => placeIn(op) === "leased")?.row as Task | undefined;
          const [key = ""] = row === undefined ? [] : keysOf(row);
          return key === "" ? ops : [...ops, create(key.replace("inprog", "dlq"), "")];
        }),
    },
  },
  {
    checker: "recovery",
    bug: "a flush leaves out a key",
    plants: {
      kv: (kv) => ({
        ...kv,
        write: (writes, options) =>
          kv.write(
            [...writes].filter(({ key }) => !key.startsWith("codeq/payload/")),
            options,
          ),
      }),
    },
  },
  {
    checker: "recovery",
    bug: "the log says that a record is durable which it refused",
    plants: {
      log: (log) =>
        twinOf(log, { append: (frame) => log.append(frame).catch(() => log.lastIndex + 1) }),
    },
    durability: "fsync",
  },
  {
    checker: "oneLease",
    bug: "leases end long before their time",
    plants: {
      core: ({ broker: { leases } }) => {
        const add = leases.add.bind(leases);
        leases.add = (task, leastMs) => {
          add(task, leastMs);
          const lease = leases.get(task.id);
          if (lease !== undefined) leases.extend(lease, 50);
        };
      },
    },
  },
  {
    checker: "fencing",
    bug: "whoever submits is taken for the owner",
    plants: {
      core: ({ broker }) => {
        const submit = broker.submit.bind(broker);
        const holderOf = (of: Parameters<typeof submit>[0]) => {
          const place = broker.store.task(of.id)?.place;
          return place?.in === "leased" ? { ...of, owner: { workerId: place.workerId } } : of;
        };
        broker.submit = (of, submission) => submit(holderOf(of), submission);
        const mayFinish = broker.mayFinish.bind(broker);
        broker.mayFinish = (of, how) => mayFinish(holderOf(of), how);
      },
    },
  },
  {
    checker: "fencing",
    bug: "a token from an earlier claim is good enough for a heartbeat",
    plants: {
      core: ({ broker }) => {
        const heartbeat = broker.heartbeat.bind(broker);
        broker.heartbeat = (of, leaseMs) =>
          heartbeat({ ...of, owner: { workerId: of.owner.workerId } }, leaseMs);
      },
    },
  },
  {
    checker: "terminalIsFinal",
    bug: "a repeated submit puts the task back",
    plants: {
      core: ({ broker, engine }) => {
        const submit = broker.submit.bind(broker);
        broker.submit = (of, submission) => {
          const outcome = submit(of, submission);
          if (outcome.ok && outcome.value.value.repeated) {
            const { task } = outcome.value.value;
            const ops: Op[] = [];
            addChange(ops, task, { ...task, place: { in: "ready", seq: 1e6 } });
            engine.commit(ops);
          }
          return outcome;
        };
      },
    },
  },
  {
    checker: "resultsAreKept",
    bug: "a repeated submit replaces the result",
    plants: {
      core: ({ broker, engine }) => {
        const submit = broker.submit.bind(broker);
        broker.submit = (of, submission) => {
          const outcome = submit(of, submission);
          if (outcome.ok && outcome.value.value.repeated) {
            const { task } = outcome.value.value;
            const text = ["x", "c", submission.resultJson, "", 0, 0, []];
            engine.commit([put(taskKey(of.id), encodeTask(task, JSON.stringify(text)))]);
          }
          return outcome;
        };
      },
    },
  },
  {
    checker: "fifo",
    bug: "the second in line is taken before the first",
    plants: {
      core: ({ broker: { queues } }) => {
        const take = queues.take.bind(queues);
        queues.take = (queue, priority) => {
          const first = take(queue, priority);
          const second = first === undefined ? undefined : take(queue, priority);
          if (first === undefined || second === undefined) return first;
          // The first one goes to the end of the line.
          const window = queue.window(priority);
          window.endRefill([first], window.coveredTo);
          queues.windowEntries += 1;
          return second;
        };
      },
    },
  },
  {
    checker: "priorityOrder",
    bug: "high priorities are overlooked",
    plants: {
      core: ({ broker: { queues } }) => {
        const find = queues.find.bind(queues);
        queues.find = (tenantId, name) => {
          const queue = find(tenantId, name);
          const ready = queue === undefined ? undefined : Object.getPrototypeOf(queue).ready;
          if (queue !== undefined) {
            queue.ready = (priority) => (priority > 5 ? 0 : ready.call(queue, priority));
          }
          return queue;
        };
      },
    },
  },
  {
    checker: "notBeforeDue",
    bug: "the delay of a new task is forgotten",
    plants: {
      core: ({ broker }) => {
        const enqueue = broker.enqueue.bind(broker);
        broker.enqueue = (request) => enqueue({ ...request, visibleMs: undefined });
      },
    },
  },
  {
    checker: "notBeforeDue",
    bug: "tasks are promoted a second too early",
    plants: {
      core: ({ broker }) => {
        const first = broker.delayed.first.bind(broker.delayed);
        broker.delayed.first = () => {
          const item = first();
          const id = item?.id;
          if (item !== undefined && id !== undefined) {
            setImmediate(() => broker.promote([{ id, dueMs: item.dueMs }]));
          }
          return item;
        };
      },
    },
  },
  {
    checker: "promotedInTime",
    bug: "the ticker learns of delayed tasks half a second late",
    plants: {
      core: ({ broker: { delayed } }, world) => {
        const first = delayed.first.bind(delayed);
        delayed.first = () => {
          const item = first();
          if (item === undefined || world.wallMs > item.dueMs + 500) return item;
          return { ...item, dueMs: item.dueMs + 500 };
        };
      },
    },
  },
  {
    checker: "attempts",
    bug: "a delivery that came back is not counted",
    plants: {
      core: (core) => rewriteTasks(core, (task) => ({ ...task, attempts: 0 })),
    },
  },
  {
    checker: "deliveries",
    bug: "the token stays the same from claim to claim",
    plants: {
      core: (core) =>
        rewriteTasks(core, (task) => ({ ...task, leaseToken: Math.min(task.leaseToken, 1) })),
    },
  },
  {
    checker: "oneTaskPerKey",
    bug: "idempotency keys are not looked up",
    plants: {
      core: ({ broker: { store } }) => {
        store.idempotency = () => undefined;
      },
    },
  },
  {
    checker: "oneTaskPerKey",
    bug: "a key is answered whatever the request says",
    plants: {
      core: ({ broker }) => {
        const enqueue = broker.enqueue.bind(broker);
        broker.enqueue = (request) => {
          const entry = broker.store.idempotency(request.tenantId, request.idempotencyKey);
          if (entry === undefined) return enqueue(request);
          const { queue: command, payloadHash } = entry;
          return enqueue({ ...request, command, payloadHash });
        };
      },
    },
  },
  {
    checker: "tenantsAreApart",
    bug: "reading a task does not look at the tenant",
    plants: {
      core: ({ broker }) => {
        const get = broker.get.bind(broker);
        broker.get = (tenantId, id) => get(broker.store.task(id)?.tenantId ?? tenantId, id);
      },
    },
  },
  {
    checker: "resultWhenTerminal",
    bug: "the result is not written with the end of the task",
    plants: {
      core: (core) =>
        onCommit(core, (ops) =>
          ops.map((op) => {
            const task = isDelete(op) ? undefined : decodeTask(op.value as string);
            return task?.place.in === "done" ? { ...op, value: encodeTask(task, "") } : op;
          }),
        ),
    },
  },
  {
    checker: "counters",
    bug: "a task that leaves its worker is still counted there",
    plants: {
      core: ({ broker: { index } }) => {
        const leave = index.leave.bind(index);
        index.leave = (task) => {
          leave(task);
          if (task.place.in === "leased") index.queueOf(task).counts.leased += 1;
        };
      },
    },
  },
  {
    checker: "counters",
    bug: "a delayed task is not counted for its tenant",
    plants: {
      core: ({ broker: { index } }) => {
        const enter = index.enter.bind(index);
        index.enter = (task) => {
          enter(task);
          if (task.place.in === "delayed") index.queueOf(task).tenant.pending -= 1;
        };
      },
    },
  },
  {
    checker: "storedBytes",
    bug: "the bytes of a deleted task are still counted",
    plants: {
      core: ({ broker: { storedBytes } }) => {
        const add = storedBytes.add.bind(storedBytes);
        storedBytes.add = (tenantId, bytes) => add(tenantId, Math.max(bytes, 0));
      },
    },
  },
  {
    checker: "storedBytes",
    bug: "totals are written with a later record than what changed them",
    plants: {
      core: ({ broker: { storedBytes }, engine }) => {
        let late: ReturnType<typeof storedBytes.takeChanges> = [];
        engine.onClosing = () => {
          const ops = late;
          late = storedBytes.takeChanges();
          return ops;
        };
      },
    },
  },
  {
    checker: "quotasHold",
    bug: "a batch claim gets all that it asks for as long as there is one lease left",
    plants: {
      core: ({ broker: { room } }) => {
        const leases = room.leases.bind(room);
        room.leases = (tenantId) => (leases(tenantId) > 0 ? 1000 : 0);
      },
    },
  },
  {
    checker: "quotasHold",
    bug: "whoever is over its quota may still create",
    plants: {
      core: ({ broker: { room } }) => {
        room.exceededByTask = () => undefined;
      },
    },
  },
  {
    checker: "toldIsDurable",
    bug: "a creation is told while its commit is under way",
    plants: {
      core: (core) => {
        const enqueue = core.broker.enqueue.bind(core.broker);
        core.broker.enqueue = (request) => {
          const outcome = enqueue(request);
          if (!outcome.ok || outcome.value.value.replayed) return outcome;
          const { id, updatedMs: atMs, ...task } = outcome.value.value.task;
          core.feed.tell({ event: "created", taskId: id, atMs, attempt: 1, ...task });
          return outcome;
        };
      },
    },
  },
  {
    checker: "toldIsDurable",
    bug: "a claim is told behind what followed from it",
    plants: {
      core: (core) => {
        const tell = core.feed.tell.bind(core.feed);
        const claims: Parameters<typeof tell>[0][] = [];
        core.feed.tell = (event) => {
          if (event.event === "claimed") claims.push(event);
          else for (const each of [event, ...claims.splice(0)]) tell(each);
        };
      },
    },
  },
  {
    checker: "durableBeforeVisible",
    bug: "reads do not wait for what they show",
    plants: {
      core: ({ engine }) => {
        engine.whenDurable = () => undefined;
      },
    },
  },
  {
    checker: "durableBeforeVisible",
    bug: "what was seen is lost with the power",
    plants: { logDurability: "os" },
    durability: "fsync",
  },
  {
    checker: "refusedChangesNothing",
    bug: "a submit that is refused ends the task all the same",
    plants: {
      core: ({ broker }) => {
        const mayFinish = broker.mayFinish.bind(broker);
        const submit = broker.submit.bind(broker);
        broker.mayFinish = (of, how) => {
          const outcome = mayFinish(of, how);
          return outcome.ok || outcome.code === "task_unknown"
            ? outcome
            : { ok: true, value: { isRepeat: false } };
        };
        broker.submit = (of, submission) => {
          const outcome = submit(of, submission);
          const place = broker.store.task(of.id)?.place;
          if (!outcome.ok && place?.in === "leased") {
            submit({ ...of, owner: { workerId: place.workerId } }, submission);
          }
          return outcome;
        };
      },
    },
  },
  {
    checker: "refusedChangesNothing",
    bug: "a refused abandon gives the task back",
    plants: {
      core: ({ broker }) => {
        const abandon = broker.abandon.bind(broker);
        broker.abandon = (of, request) => {
          const outcome = abandon(of, request);
          const place = broker.store.task(of.id)?.place;
          if (!outcome.ok && place?.in === "leased") {
            abandon({ ...of, owner: { workerId: place.workerId } }, request);
          }
          return outcome;
        };
      },
    },
  },
  {
    checker: "fullDiskPasses",
    bug: "the store never becomes writable again",
    plants: {
      kv: (kv) => ({
        ...kv,
        recover: () => Promise.reject(new FaultError("disk_full", "planted")),
      }),
    },
  },
  {
    checker: "silentAfterFailure",
    bug: "commits are acknowledged although the storage failed",
    plants: {
      core: ({ engine }) => {
        const commit = engine.commit.bind(engine);
        const assertWritable = engine.assertWritable.bind(engine);
        engine.assertWritable = () => {
          if (engine.state !== "failed") assertWritable();
        };
        engine.commit = (ops) =>
          engine.state === "failed" ? { index: 0, done: Promise.resolve() } : commit(ops);
      },
    },
  },
  {
    checker: "noInternalError",
    bug: "a nack of a task without a reason throws",
    plants: {
      core: ({ broker }) => {
        broker.nack = () => {
          throw new TypeError("planted");
        };
      },
    },
  },
  {
    checker: "webhooksArrive",
    bug: "the callback is not written with the end of the task",
    plants: {
      core: (core) =>
        onCommit(core, (ops) => ops.filter((op) => !op.key.startsWith("codeq/webhook/"))),
    },
  },
  {
    checker: "everythingFinishes",
    bug: "leases never run out",
    plants: {
      core: ({ broker: { leases } }) => {
        leases.first = () => undefined;
      },
    },
  },
];
