/**
 * A bug for every checker: a twin of some part that breaks one promise. They are planted into a
 * running composition from outside, so no file of the product knows of them.
 */
import type { Engine, EngineOptions, Group, Kv, KvBatch, Log, Row, RowCodec } from "@codeq/engine";
import { FaultError, opKinds } from "@codeq/engine";
import { type Change, changeOf, type Task, type TaskExtras } from "@codeq/queue";
import { checksumBytes, seal, sealedEnd } from "../../packages/engine/src/kv/checked-value.ts";
import type { Config } from "../../packages/server/src/config/settings.ts";
import { GroupAnswers } from "../../packages/server/src/core/broker/group-answers.ts";
import type { QueueState } from "../../packages/server/src/core/broker/queues/queue-state.ts";
import type { Waiter } from "../../packages/server/src/core/broker/verbs.ts";
import { systemClock } from "../../packages/server/src/core/clock.ts";
import type { Explained } from "../../packages/server/src/core/search/explained.ts";
import { eventsOf } from "../../packages/server/src/core/search/feed-events.ts";
import type { RecordWrite } from "../../packages/server/src/core/store/store.ts";
import type { Core } from "../../packages/server/src/start/compose.ts";
import type { CheckerName } from "./checkers/index.ts";
import type { Plants, World } from "./world.ts";

export interface PlantedBug {
  readonly checker: CheckerName;
  /** What is wrong, in one line. */
  readonly bug: string;
  readonly plants: Plants;
  readonly durability?: Config["durability"];
  /** A seed that showed the bug when this was written, for bugs that few seeds show. It is tried first. */
  readonly seed?: number;
}

/** Lets a function replace the changes of every commit. */
function onCommit({ store }: Core, rewrite: (change: Change) => Change): void {
  const commit = store.commit.bind(store);
  store.commit = (changes) => commit(changes.map(rewrite));
}

function rewriteTasks(core: Core, rewrite: (task: Task) => Task): void {
  onCommit(core, (change) =>
    change.after === undefined ? change : { ...change, after: rewrite(change.after) },
  );
}

/** Has the broker read tasks with other extras than they have. */
function readTasks({ store }: Core, different: Partial<TaskExtras>): void {
  const read = store.task.bind(store);
  store.task = (id) => {
    const task = read(id);
    if (task?.extras === undefined) return task;
    return { ...task, extras: { ...task.extras, ...different } };
  };
}

/** Has the broker explain tasks differently. */
function explainWith({ shard }: Core, different: () => Partial<Explained>): void {
  const explain = shard.explain.bind(shard);
  shard.explain = async (of) => {
    const explained = await explain(of);
    return explained && { ...explained, ...different() };
  };
}

function engineOf({ life }: World): Engine {
  const engine = life?.tap?.engine;
  if (engine === undefined) throw new Error("there is no engine yet");
  return engine;
}

/** An engine whose rows are like the given ones but for some of their methods. */
function withRows(
  change: (rows: RowCodec, options: EngineOptions) => Partial<Omit<RowCodec, "valueOf">>,
): (options: EngineOptions) => EngineOptions {
  return (options) => ({
    ...options,
    rows: { ...options.rows, ...change(options.rows, options) },
  });
}

/** A kv whose batches leave out some writes. */
function withBatch(kv: Kv, isKept: (kind: "put" | "del", key: string) => boolean): Kv {
  const twin = (batch: KvBatch): KvBatch => ({
    put: (key, value) => {
      if (isKept("put", key)) batch.put(key, value);
    },
    del: (key) => {
      if (isKept("del", key)) batch.del(key);
    },
    write: (options) => batch.write(options),
    close: () => batch.close(),
  });
  return { ...kv, batch: () => twin(kv.batch()) };
}

/** A group that says that it is durable and has reached nothing. */
function falseGroup(): Group {
  const group: Pick<Group, "index" | "done" | "wait"> = {
    index: 0,
    done: Promise.resolve(),
    wait: (waiter) => queueMicrotask(() => waiter.durable()),
  };
  return group as Group;
}

/** Calls a function for every queue before it is used. */
function onQueue({ shard: { queues } }: Core, change: (queue: QueueState) => void): void {
  const changed = new WeakSet<QueueState>();
  const queueOf = queues.queue.bind(queues);
  queues.queue = (tenantId, name) => {
    const queue = queueOf(tenantId, name);
    if (!changed.has(queue)) change(queue);
    changed.add(queue);
    return queue;
  };
}

const nobody: Waiter<unknown> = { durable: () => {}, refused: () => {} };

/** Runs something before somebody hears that it was refused. */
function onRefused<Answer>(waiter: Waiter<Answer>, run: () => void): Waiter<Answer> {
  return {
    durable: (answer, item) => waiter.durable(answer, item),
    refused: (why, item) => {
      if (!(why instanceof FaultError)) run();
      waiter.refused(why, item);
    },
  };
}

/** A log like the given one but for some of its methods. */
function twinOf(log: Log, different: Partial<Pick<Log, "append" | "sync">>): Log {
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
    get canAppend() {
      return log.canAppend;
    },
    append: (frame, appended) => log.append(frame, appended),
    sync: () => log.sync(),
    readFrom: (index) => log.readFrom(index),
    trim: (index) => log.trim(index),
    close: () => log.close(),
    ...different,
  };
}

/** Takes the sync of a record for one of everything that was written. */
function acknowledgingAllWithFirst(log: Log): Log["append"] {
  let waiting: (() => void)[] = [];
  return (frame, appended) => {
    let isTold = false;
    let index = log.lastIndex + waiting.length + 1;
    const tell = (fault?: FaultError): void => {
      if (!isTold) appended(fault, index);
      isTold = true;
    };
    waiting.push(tell);
    log.append(frame, (fault, given) => {
      index = given;
      const all = waiting;
      waiting = [];
      if (fault === undefined) for (const each of all) each();
      else tell(fault);
    });
  };
}

export const plantedBugs: readonly PlantedBug[] = [
  {
    checker: "keysMatchRecords",
    bug: "an index key is not deleted when a task leaves it",
    plants: {
      kv: (kv) => withBatch(kv, (kind, key) => kind === "put" || !key.startsWith("codeq/q/")),
    },
  },
  {
    checker: "keysMatchRecords",
    bug: "an index key is not written",
    plants: {
      engine: withRows(({ keysOf }) => ({
        keysOf: (row) => keysOf(row).filter((key) => !key.startsWith("codeq/ttl/")),
      })),
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
    checker: "acknowledgedIsKept",
    bug: "a kv trusts its own log, which has lost its middle",
    seed: 2,
    plants: { ownLog: (batches) => batches.filter((_, at) => at !== batches.length >> 1) },
  },
  {
    checker: "recovery",
    bug: "the log is given up as far as the kv was written, not as far as it is durable",
    seed: 2,
    plants: {
      kv: (kv) => ({
        ...kv,
        files: {
          ...(kv.files as NonNullable<Kv["files"]>),
          noteWritten: async (index) => {
            await kv.files?.noteWritten(index);
            return index;
          },
        },
      }),
    },
  },
  {
    checker: "conservation",
    bug: "a sweep removes tasks that wait",
    plants: {
      core: ({ shard, store }, world) => {
        const enqueue = shard.enqueue.bind(shard);
        shard.enqueue = (input, waiter, item) => {
          const [first] = world.ledger.tasks.keys();
          const task = first === undefined ? undefined : store.task(first);
          if (task?.place.in === "ready") store.commit([changeOf(task, undefined, "deleted")]);
          enqueue(input, waiter, item);
        };
      },
    },
  },
  {
    checker: "conservation",
    bug: "a task is put into two places",
    plants: {
      engine: withRows(({ keysOf }) => ({
        keysOf: (row) =>
          keysOf(row).flatMap((key) =>
            key.includes("/inprog/") ? [key, key.replace("inprog", "dlq")] : [key],
          ),
      })),
    },
  },
  {
    checker: "recovery",
    bug: "a flush leaves out a key",
    plants: {
      kv: (kv) => withBatch(kv, (kind, key) => kind === "del" || !key.startsWith("codeq/payload/")),
    },
  },
  {
    checker: "recovery",
    bug: "the log says that a record is durable which it refused",
    plants: {
      log: (log) =>
        twinOf(log, {
          append: (frame, appended) =>
            log.append(frame, (_fault, index) => appended(undefined, index)),
        }),
    },
    durability: "fsync",
  },
  {
    checker: "recovery",
    bug: "of two appends under way the second is acknowledged with the first",
    plants: { log: (log) => twinOf(log, { append: acknowledgingAllWithFirst(log) }) },
    durability: "fsync",
  },
  {
    checker: "recovery",
    bug: "a start applies a patch to the row of the kv instead of the one in the overlay",
    plants: {
      engine: withRows(({ prefix, read }, { kv }) => ({
        read: (buffer, start, end, id, before) => {
          const bytes = before === undefined ? undefined : kv.get(prefix + id);
          const stored = bytes && read(bytes, 0, sealedEnd(prefix + id, bytes)!, id, undefined);
          return read(buffer, start, end, id, stored ?? before);
        },
      })),
    },
  },
  {
    checker: "recovery",
    bug: "a patch is made from the row of the kv instead of the one in the overlay",
    plants: {
      engine: withRows(({ prefix, read, write }, { kv }) => ({
        write: (buffer, at, after, before) => {
          const id = (after as Task).id;
          const bytes = before === undefined ? undefined : kv.get(prefix + id);
          const end = bytes && sealedEnd(prefix + id, bytes);
          const stored: Row | undefined = bytes && read(bytes, 0, end!, id, undefined);
          return write(buffer, at, after, stored ?? before);
        },
      })),
    },
  },
  {
    checker: "oneLease",
    bug: "leases end long before their time",
    seed: 2,
    plants: {
      core: ({ shard: { leases } }) => {
        const add = leases.add.bind(leases);
        leases.add = (task, leastMs) => {
          add(task, leastMs);
          if (task.place.in !== "leased") return;
          leases.extend({ ...task, place: { ...task.place, leaseMs: 50 } });
        };
      },
    },
  },
  {
    checker: "oneLease",
    bug: "a heartbeat is acknowledged and not in the log",
    seed: 21,
    plants: {
      core: ({ store }) => {
        const commit = store.commit.bind(store);
        store.commit = (changes) =>
          changes.every(({ because }) => because === "extended") ? falseGroup() : commit(changes);
      },
    },
  },
  {
    checker: "stallsDoNotCount",
    bug: "leases run out while the server is stopped",
    seed: 3,
    plants: {
      core: ({ shard: { leases } }) => {
        leases.prolong = () => {};
      },
    },
  },
  {
    checker: "stallsDoNotCount",
    bug: "a long stall only gives back its own time",
    seed: 3,
    plants: {
      core: ({ shard: { leases } }) => {
        const prolong = leases.prolong.bind(leases);
        leases.prolong = (stalledMs) => {
          for (let left = stalledMs; left > 0; left -= 500) prolong(Math.min(left, 500));
        };
      },
    },
  },
  {
    checker: "fencing",
    bug: "whoever submits is taken for the owner",
    seed: 2,
    plants: {
      core: ({ shard }) => {
        const submit = shard.submit.bind(shard);
        const holderOf = (of: Parameters<typeof submit>[0]) => {
          const place = shard.store.task(of.id)?.place;
          return place?.in === "leased" ? { ...of, owner: { workerId: place.workerId } } : of;
        };
        shard.submit = (of, submission, waiter, item) =>
          submit(holderOf(of), submission, waiter, item);
        const mayFinish = shard.mayFinish.bind(shard);
        shard.mayFinish = (of, how) => mayFinish(holderOf(of), how);
      },
    },
  },
  {
    checker: "fencing",
    bug: "a token from an earlier claim is good enough for a heartbeat",
    seed: 2,
    plants: {
      core: ({ shard }) => {
        const heartbeat = shard.heartbeat.bind(shard);
        shard.heartbeat = (of, leaseMs, waiter, item) =>
          heartbeat({ ...of, owner: { workerId: of.owner.workerId } }, leaseMs, waiter, item);
      },
    },
  },
  {
    checker: "terminalIsFinal",
    bug: "a repeated submit puts the task back",
    plants: {
      core: ({ shard, store }) => {
        const submit = shard.submit.bind(shard);
        shard.submit = (of, submission, waiter, item) => {
          const task = store.task(of.id);
          if (task?.place.in === "done" && store.state === "open") {
            const ready: Task = { ...task, place: { in: "ready", seq: 1e6 } };
            store.commit([changeOf(task, ready, "abandoned")]);
          }
          submit(of, submission, waiter, item);
        };
      },
    },
  },
  {
    checker: "resultsAreKept",
    bug: "a repeated submit replaces the result",
    seed: 2,
    plants: {
      core: ({ shard, store }) => {
        const submit = shard.submit.bind(shard);
        shard.submit = (of, submission, waiter, item) => {
          submit(
            of,
            submission,
            {
              durable: (answer, each) => {
                const task = store.task(of.id);
                if (answer.repeated && task?.result !== undefined && store.state === "open") {
                  const other = { ...task, webhook: "", result: submission.result };
                  store.commit([changeOf(task, other, "finished")]);
                }
                waiter.durable(answer, each);
              },
              refused: (why, each) => waiter.refused(why, each),
            },
            item,
          );
        };
      },
    },
  },
  {
    checker: "fifo",
    bug: "the second in line is taken before the first",
    plants: {
      core: ({ shard: { queues } }) => {
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
      core: (core) =>
        onQueue(core, (queue) => {
          const get = (): number => [5, 4, 3, 2, 1, 0].find((each) => queue.ready(each) > 0) ?? -1;
          Object.defineProperty(queue, "topPriority", { get });
        }),
    },
  },
  {
    checker: "notBeforeDue",
    bug: "the delay of a new task is forgotten",
    plants: {
      core: ({ shard }) => {
        const enqueue = shard.enqueue.bind(shard);
        shard.enqueue = (input, waiter, item) =>
          enqueue({ ...input, visibleMs: undefined }, waiter, item);
      },
    },
  },
  {
    checker: "notBeforeDue",
    bug: "tasks are promoted a second too early",
    plants: {
      core: ({ shard }) => {
        const first = shard.delayed.first.bind(shard.delayed);
        shard.delayed.first = () => {
          const item = first();
          const id = item?.id;
          if (item !== undefined && id !== undefined) {
            setImmediate(() => {
              if (shard.store.state === "open") void shard.promote([{ id, number: item.dueMs }]);
            });
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
      core: ({ shard: { delayed } }, world) => {
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
    checker: "begunInTime",
    bug: "claims and the sweep overlook the time to live",
    plants: { core: (core) => readTasks(core, { startByMs: 0 }) },
  },
  {
    checker: "begunInTime",
    bug: "a task that came back from a worker expires all the same",
    plants: {
      core: (core) =>
        rewriteTasks(core, (task) => {
          const { extras } = task;
          if (extras === undefined || extras.ttlMs === 0) return task;
          return { ...task, extras: { ...extras, startByMs: task.createdMs + extras.ttlMs } };
        }),
    },
  },
  {
    checker: "withinTimeout",
    bug: "leases are given as long as workers ask for",
    seed: 4,
    plants: { core: (core) => readTasks(core, { timeoutMs: 0 }) },
  },
  {
    checker: "attempts",
    bug: "an attempt that came back is not counted",
    plants: {
      core: (core) => rewriteTasks(core, (task) => ({ ...task, attempts: 0 })),
    },
  },
  {
    checker: "claimsAreCounted",
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
      core: ({ store }) => {
        store.idempotency = () => undefined;
      },
    },
  },
  {
    checker: "oneTaskPerKey",
    bug: "an idempotency key is forgotten with its task",
    plants: {
      core: ({ store }) => {
        store.keyUntilMs = () => undefined;
      },
    },
  },
  {
    checker: "keysMatchRecords",
    bug: "the key of a deleted task has no time",
    plants: {
      kv: (kv) => withBatch(kv, (_kind, key) => !key.startsWith("codeq/kept-keys/")),
    },
  },
  {
    checker: "oneTaskPerKey",
    bug: "a key is answered whatever the request says",
    plants: {
      core: ({ shard, store }) => {
        const enqueue = shard.enqueue.bind(shard);
        shard.enqueue = (input, waiter, item) => {
          const entry = store.idempotency(input.tenantId, input.idempotencyKey);
          const known = entry && { command: entry.queue, payloadHash: entry.payloadHash };
          enqueue({ ...input, ...known }, waiter, item);
        };
      },
    },
  },
  {
    checker: "tenantsAreApart",
    bug: "reading a task does not look at the tenant",
    plants: {
      core: ({ shard }) => {
        const get = shard.get.bind(shard);
        shard.get = (tenantId, id) => get(shard.store.task(id)?.tenantId ?? tenantId, id);
      },
    },
  },
  {
    checker: "resultWhenTerminal",
    bug: "the result is not written with the end of the task",
    plants: {
      core: (core) =>
        onCommit(core, (change) =>
          change.after?.place.in === "done"
            ? { ...change, after: { ...change.after, result: undefined }, result: undefined }
            : change,
        ),
    },
  },
  {
    checker: "counters",
    bug: "a task that leaves its worker is still counted there",
    plants: {
      core: (core) =>
        onQueue(core, (queue) => {
          const addLeased = queue.addLeased.bind(queue);
          queue.addLeased = (change) => addLeased(Math.max(change, 0));
        }),
    },
  },
  {
    checker: "counters",
    bug: "a failure that left stays in the counter of its group",
    plants: {
      engine: (options) => ({
        ...options,
        derive: (unflushed, get) =>
          options
            .derive(unflushed, get)
            .filter(({ key, value }) => !key.startsWith("codeq/failure-counts/") || value),
      }),
    },
  },
  {
    checker: "counters",
    bug: "a delayed task is not counted for its tenant",
    plants: {
      core: (core) =>
        onQueue(core, (queue) => {
          const addDelayed = queue.addDelayed.bind(queue);
          queue.addDelayed = (change) => {
            addDelayed(change);
            if (change > 0) queue.tenant.pending -= change;
          };
        }),
    },
  },
  {
    checker: "storedBytes",
    bug: "the bytes of a deleted task are still counted",
    seed: 2,
    plants: {
      core: (core) =>
        onCommit(core, (change) =>
          change.after === undefined && change.before !== undefined
            ? { ...change, before: { ...change.before, storedBytes: 0 } }
            : change,
        ),
    },
  },
  {
    checker: "storedBytes",
    bug: "totals are written with a later record than what changed them",
    plants: {
      core: (_core, world) => {
        const engine = engineOf(world);
        const takeChanges = engine.onClosing;
        let late: ReturnType<typeof takeChanges> = [];
        engine.onClosing = () => {
          const ops = late;
          late = takeChanges();
          return ops;
        };
      },
    },
  },
  {
    checker: "quotasHold",
    bug: "a batch claim gets all that it asks for as long as there is one lease left",
    plants: {
      core: ({ shard: { quotas } }) => {
        const left = quotas.leasesLeft.bind(quotas);
        quotas.leasesLeft = (tenantId) => (left(tenantId) > 0 ? 1000 : 0);
      },
    },
  },
  {
    checker: "quotasHold",
    bug: "whoever is over its quota may still create",
    plants: {
      core: ({ shard: { quotas } }) => {
        quotas.exceededByTask = () => undefined;
      },
    },
  },
  {
    checker: "toldIsDurable",
    bug: "a creation is told while its commit is under way",
    plants: {
      core: (core) =>
        onCommit(core, (change) => {
          const events = change.because === "created" ? eventsOf(change) : [];
          for (const event of events) core.feed.publish(event);
          return change;
        }),
    },
  },
  {
    checker: "toldIsDurable",
    bug: "observers hear of a change before its group is durable",
    plants: {
      core: ({ store }) => {
        const commit = store.commit.bind(store);
        store.commit = (changes) => {
          const group = commit(changes);
          const wait = group.wait.bind(group);
          group.wait = (outcome) => {
            if (!(outcome instanceof GroupAnswers)) return wait(outcome);
            // Whoever asked is still answered in time.
            const answers = new GroupAnswers({
              observe: () => {},
              observeGroup: undefined,
              clock: systemClock,
            });
            outcome.answer = (waiter, answer, item) => answers.answer(waiter, answer, item);
            queueMicrotask(() => outcome.durable());
            wait(answers);
          };
          return group;
        };
      },
    },
  },
  {
    checker: "toldIsDurable",
    bug: "a claim is told behind what followed from it",
    plants: {
      core: (core) => {
        const tell = core.feed.publish.bind(core.feed);
        const claims: Parameters<typeof tell>[0][] = [];
        core.feed.publish = (event) => {
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
      core: ({ store }) => {
        store.whenDurable = () => undefined;
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
    seed: 2,
    plants: {
      core: ({ shard }) => {
        const mayFinish = shard.mayFinish.bind(shard);
        const submit = shard.submit.bind(shard);
        shard.mayFinish = (of, how) => {
          const outcome = mayFinish(of, how);
          const isRefused = typeof outcome === "string" && outcome !== "task_unknown";
          return isRefused ? { isRepeat: false } : outcome;
        };
        shard.submit = (of, submission, waiter, item) => {
          const asHolder = (): void => {
            const place = shard.store.task(of.id)?.place;
            if (place?.in !== "leased") return;
            submit({ ...of, owner: { workerId: place.workerId } }, submission, nobody);
          };
          submit(of, submission, onRefused(waiter, asHolder), item);
        };
      },
    },
  },
  {
    checker: "refusedChangesNothing",
    bug: "a refused abandon gives the task back",
    seed: 4,
    plants: {
      core: ({ shard }) => {
        const abandon = shard.abandon.bind(shard);
        shard.abandon = (of, request, waiter, item) => {
          const asHolder = (): void => {
            const place = shard.store.task(of.id)?.place;
            if (place?.in !== "leased") return;
            abandon({ ...of, owner: { workerId: place.workerId } }, request, nobody);
          };
          abandon(of, request, onRefused(waiter, asHolder), item);
        };
      },
    },
  },
  {
    checker: "fullDiskPasses",
    bug: "the store never becomes writable again",
    seed: 4,
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
    seed: 2,
    plants: {
      core: (_core, world) => {
        const engine = engineOf(world);
        const commit = engine.commit.bind(engine);
        const assertWritable = engine.assertWritable.bind(engine);
        engine.assertWritable = (frees) => {
          if (engine.state !== "failed") assertWritable(frees);
        };
        engine.commit = (changes, ops, frees) =>
          engine.state === "failed" ? falseGroup() : commit(changes, ops, frees);
      },
    },
  },
  {
    checker: "noInternalError",
    bug: "a nack of a task without a reason throws",
    plants: {
      core: ({ shard }) => {
        shard.nack = () => {
          throw new TypeError("planted");
        };
      },
    },
  },
  {
    checker: "webhooksArrive",
    bug: "the webhook is not written with the end of the task",
    plants: {
      core: (_core, world) => {
        const engine = engineOf(world);
        const commit = engine.commit.bind(engine);
        engine.commit = (changes, ops = [], frees = false) =>
          commit(
            changes,
            ops.filter(({ key }) => !key.startsWith("codeq/webhook/")),
            frees,
          );
      },
    },
  },
  {
    checker: "deliveriesAreLogged",
    bug: "a webhook that was given up is not listed",
    seed: 11,
    plants: {
      core: (_core, world) => {
        const engine = engineOf(world);
        const commit = engine.commit.bind(engine);
        engine.commit = (changes, ops = [], frees = false) =>
          commit(
            changes,
            ops.filter(({ key }) => !key.startsWith("codeq/undelivered/")),
            frees,
          );
      },
    },
  },
  {
    checker: "deliveriesAreLogged",
    bug: "the log of a webhook stays when its task is deleted",
    seed: 6,
    plants: {
      core: (_core, world) => {
        const engine = engineOf(world);
        const commit = engine.commit.bind(engine);
        engine.commit = (changes, ops = [], frees = false) => {
          // What is removed has no value.
          const kept = ops.filter(
            ({ key, value }) => value !== "" || !key.startsWith("codeq/deliveries/"),
          );
          return commit(changes, kept, frees);
        };
      },
    },
  },
  {
    checker: "filesAreThere",
    bug: "files are removed before the task that names them",
    seed: 4,
    plants: {
      core: ({ shard }, world) => {
        const remove = shard.delete.bind(shard);
        shard.delete = async (tasks) => {
          await world.artifacts.removalOf(tasks.map(({ id }) => id))();
          await new Promise<void>((resolve) => {
            world.clock.after(1000, resolve);
          });
          await remove(tasks);
        };
      },
    },
  },
  {
    checker: "filesAreThere",
    bug: "files that no task names are never looked for",
    seed: 33,
    plants: {
      core: (_core, world) => {
        world.artifacts.list = async function* () {};
      },
    },
  },
  {
    checker: "jobsApplyOnce",
    bug: "a job replays a task again when it is dead again, and the task does not remember it",
    plants: {
      core: (core) => {
        const { shard } = core;
        const jobs = new Map<string, string>();
        const act = shard.act.bind(shard);
        shard.act = (of, action) => {
          if (action.kind !== "replay") return act(of, action);
          if (action.job !== undefined) jobs.set(of.id, action.job);
          return act(of, { kind: "replay" });
        };
        onCommit(core, (change) => {
          const { after } = change;
          const job = after?.place.in === "dead" ? jobs.get(after.id) : undefined;
          if (after !== undefined && job !== undefined) {
            const again = (): Promise<unknown> => shard.act(after, { kind: "replay", job });
            setImmediate(() => void again().catch(() => {}));
          }
          return change;
        });
      },
    },
  },
  {
    checker: "replays",
    bug: "a replay is answered and not carried out",
    plants: {
      core: ({ shard }) => {
        const act = shard.act.bind(shard);
        shard.act = async (of, action) => {
          const task = shard.store.task(of.id);
          const isLie = action.kind === "replay" && task?.place.in === "dead";
          if (!isLie || task.tenantId !== of.tenantId) return act(of, action);
          const place = { in: "ready", seq: 1 } as const;
          return { ok: true, task: { ...task, place, replays: task.replays + 1 } };
        };
      },
    },
  },
  {
    checker: "replays",
    bug: "a filter replays the dead letters of every tenant",
    plants: {
      core: ({ shard }) => {
        const act = shard.act.bind(shard);
        shard.act = async (of, action) => {
          const others = [...shard.queues.all()].filter(({ counts }) => counts.dead > 0);
          for (const queue of others) {
            const ids = await shard.store.idsIn(queue, { place: "dead", limit: 1 });
            for (const id of ids) await act({ tenantId: queue.tenantId, id }, action);
          }
          return act(of, action);
        };
      },
    },
  },
  {
    checker: "replays",
    bug: "a search leaves out the first task of a queue",
    seed: 18,
    plants: {
      core: ({ shard: { store } }) => {
        const idsIn = store.idsIn.bind(store);
        store.idsIn = async (queue, wanted) => (await idsIn(queue, wanted)).slice(1);
      },
    },
  },
  {
    checker: "pausedStandsStill",
    bug: "a claim for every queue takes tasks of paused ones",
    plants: {
      core: (core) =>
        onQueue(core, (queue) => {
          const { waiters } = queue;
          Object.defineProperty(queue, "topPriority", {
            get: () => {
              const ready = queue.counts.ready.findLastIndex((count) => count > 0);
              return waiters === queue.waiters ? ready : -1;
            },
          });
        }),
    },
  },
  {
    checker: "pausedStandsStill",
    bug: "a pause is forgotten when the server starts again",
    seed: 6,
    plants: {
      core: ({ shard }) => {
        for (const queue of shard.queues.all()) queue.pause = undefined;
      },
    },
  },
  {
    checker: "claimsAreCounted",
    bug: "an attempt that came back is not kept",
    plants: { core: (core) => rewriteTasks(core, (task) => ({ ...task, trail: undefined })) },
  },
  {
    checker: "explanationsHold",
    bug: "what holds a task is not told",
    seed: 14,
    plants: { core: (core) => explainWith(core, () => ({ obstacle: undefined })) },
  },
  {
    checker: "explanationsHold",
    bug: "every task is said to be the next",
    seed: 3,
    plants: {
      core: (core) =>
        explainWith(core, () => ({ ahead: { higher: 0, older: 0, isAtLeast: false } })),
    },
  },
  {
    checker: "explanationsHold",
    bug: "every queue is said to be paused",
    seed: 3,
    plants: {
      core: (core) => {
        const pause = { by: "nobody", atMs: 1, reason: "" };
        explainWith(core, () => ({ obstacle: { rule: "paused", pause } }));
      },
    },
  },
  {
    checker: "editsAreKept",
    bug: "a new payload is not written",
    seed: 4,
    plants: {
      core: (core) => {
        onCommit(core, (change) => {
          const { before, after, because } = change;
          if (because !== "edited" || before === undefined || after === undefined) return change;
          const { payload, storedBytes } = before;
          return { ...change, payload: undefined, after: { ...after, payload, storedBytes } };
        });
      },
    },
  },
  {
    checker: "editsAreKept",
    bug: "moving a task is answered and not carried out",
    seed: 4,
    plants: {
      core: ({ shard }) => {
        const act = shard.act.bind(shard);
        shard.act = async (of, action) => {
          if (action.kind !== "edit") return act(of, action);
          const { command, ...rest } = action.edit;
          const acted = await act(of, { ...action, edit: rest });
          if (!acted.ok || command === undefined) return acted;
          return { ...acted, task: { ...acted.task, command } };
        };
      },
    },
  },
  {
    checker: "editsAreKept",
    bug: "a task that was put off is ready all the same",
    plants: {
      core: ({ shard }) => {
        const act = shard.act.bind(shard);
        shard.act = async (of, action) => {
          if (action.kind !== "edit" || action.edit.dueMs === undefined) return act(of, action);
          const { dueMs } = action.edit;
          const acted = await act(of, { ...action, edit: { ...action.edit, dueMs: 0 } });
          return acted.ok
            ? { ...acted, task: { ...acted.task, place: { in: "delayed", dueMs } } }
            : acted;
        };
      },
    },
  },
  {
    checker: "cancelledIsOver",
    bug: "that a task was cancelled while a worker has it is not kept",
    seed: 14,
    plants: {
      core: (core) =>
        onCommit(core, (change) =>
          change.because === "cancelled" && change.after !== undefined
            ? { ...change, after: { ...change.after, cancelMs: 0 } }
            : change,
        ),
    },
  },
  {
    checker: "cancelledIsOver",
    bug: "cancelling a task that waits is answered and not carried out",
    seed: 4,
    plants: {
      core: ({ shard }) => {
        const act = shard.act.bind(shard);
        shard.act = async (of, action) => {
          const task = shard.store.task(of.id);
          const isLie = action.kind === "cancel" && task?.place.in === "ready";
          if (!isLie || task.tenantId !== of.tenantId) return act(of, action);
          return { ok: true, task };
        };
      },
    },
  },
  {
    checker: "subscribersAreTold",
    bug: "nobody hears of work that comes after the subscription",
    seed: 4,
    plants: {
      core: ({ shard }) => {
        shard.watchWork(undefined);
        shard.watchWork = () => {};
      },
    },
  },
  {
    checker: "subscribersAreTold",
    bug: "a notification that was sent once is never sent again",
    plants: {
      core: ({ shard }) => {
        const work = shard.work.bind(shard);
        const told = new Set<string>();
        shard.work = (of) => {
          const name = `${of.tenantId}/${of.name}`;
          if (told.has(name)) return undefined;
          const found = work(of);
          if (found !== undefined && found.topPriority >= 0) told.add(name);
          return found;
        };
      },
    },
  },
  {
    checker: "subscribersAreTold",
    bug: "a subscription is acknowledged and not kept",
    plants: {
      core: ({ store }) => {
        const commit = store.commitRecords.bind(store);
        store.commitRecords = (writes) =>
          commit(writes.filter(({ key }) => !key.startsWith("codeq/subs/")));
      },
    },
  },
  {
    checker: "subscribersAreTold",
    bug: "a renewal is acknowledged and not kept",
    plants: {
      core: ({ store }) => {
        const commit = store.commitRecords.bind(store);
        const isRenewal = ({ kind, key }: RecordWrite): boolean =>
          kind === opKinds.put && key.startsWith("codeq/subs/");
        store.commitRecords = (writes) => commit(writes.filter((write) => !isRenewal(write)));
      },
    },
  },
  {
    checker: "topicLimitsHold",
    bug: "a claim of several does not count what it takes itself",
    plants: {
      core: (core) =>
        onQueue(core, (queue) => {
          queue.reserve = () => {};
        }),
    },
  },
  {
    checker: "topicLimitsHold",
    bug: "topics are forgotten when the server starts again",
    plants: {
      core: ({ shard }) => {
        for (const queue of shard.queues.all()) shard.queues.setTopic(queue, undefined);
      },
    },
  },
  {
    checker: "topicLimitsHold",
    bug: "a dead letter is buried without its copy",
    plants: {
      core: ({ store }) => {
        const commit = store.commit.bind(store);
        store.commit = (changes) =>
          commit(
            changes.filter(
              ({ because, after }) => because !== "created" || after?.repairs === undefined,
            ),
          );
      },
    },
  },
  {
    checker: "everythingFinishes",
    bug: "leases never run out",
    plants: {
      core: ({ shard: { leases } }) => {
        leases.first = () => undefined;
      },
    },
  },
  {
    checker: "rottenIsNotServed",
    bug: "nobody looks at the checksums of values",
    plants: {
      kv: (kv) => ({
        ...kv,
        get: (key) => {
          const stored = kv.get(key);
          if (stored === undefined || sealedEnd(key, stored) !== undefined) return stored;
          const accepted = Buffer.from(stored);
          seal(key, accepted, accepted.length - checksumBytes);
          return accepted;
        },
      }),
    },
  },
  {
    checker: "rottenIsNotServed",
    bug: "a damaged value is taken for one that is not there",
    plants: {
      kv: (kv) => ({
        ...kv,
        get: (key) => {
          const stored = kv.get(key);
          return stored !== undefined && sealedEnd(key, stored) === undefined ? undefined : stored;
        },
      }),
    },
  },
  {
    checker: "rottenIsNotServed",
    bug: "a damaged key of a producer is taken for a free one",
    seed: 6,
    plants: {
      kv: (kv) => ({
        ...kv,
        get: (key) => {
          const stored = kv.get(key);
          if (stored === undefined || !key.startsWith("codeq/idempo/")) return stored;
          return sealedEnd(key, stored) === undefined ? undefined : stored;
        },
      }),
    },
  },
];
