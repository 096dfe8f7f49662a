/** Batches, and the page of one: how far it is, its callback, the failed members first, and actions. */
import type { ItemOf, ReplyOf } from "@codeq/protocol";
import type { ComponentChildren, JSX } from "preact";
import { callOf } from "../api.ts";
import { count, plural } from "../format.ts";
import { ActionDialog, Blast, openDialog } from "../overlays/dialog.tsx";
import {
  Badge,
  Facts,
  Given,
  Note,
  Nothing,
  PageHead,
  Panel,
  Pending,
  QueueLink,
  State,
  TaskLink,
  Time,
} from "../parts/basics.tsx";
import { Act } from "../parts/buttons.tsx";
import { Icon, type IconName } from "../parts/icon.tsx";
import { CardTable, type Column, column, num, title } from "../parts/tables.tsx";
import { useAnswer } from "../query.ts";
import { href } from "../router.ts";
import { showFilter } from "../task-filter.ts";
import { sendCall, sendNow } from "../toasts.tsx";
import { askBulkJob } from "./bulk-jobs.tsx";
import { Stat } from "./queue.tsx";

type Batch = ReplyOf<"GET /admin/batches/:id">;
type Phase = Batch["phase"];
type Member = ItemOf<"GET /admin/tasks">;

const shown = 200;
const membersShown = 50;
const everyMs = 2000;

const looks: Readonly<Record<Phase, { readonly icon: IconName; readonly tone: string }>> = {
  open: { icon: "ready", tone: "ready" },
  sealed: { icon: "held", tone: "delayed" },
  released: { icon: "done", tone: "done" },
  failed: { icon: "failed", tone: "dead" },
  cancelled: { icon: "cancelled", tone: "mute" },
  expired: { icon: "delayed", tone: "dead" },
};

export function Batches(): JSX.Element {
  const request = callOf("GET /admin/batches", { query: { limit: shown } });
  const { data, error } = useAnswer("batches", request, { everyMs });
  const first = data?.next === undefined ? "" : "the first ";
  return (
    <>
      <PageHead
        title="Batches"
        about="A batch is many tasks, its members, with one callback: a task that is held until the members have ended."
      />
      <Panel
        title="Batches"
        id="batches"
        note={data && first + plural(data.batches.length, "batch", "batches")}
      >
        <CardTable
          rows={data?.batches}
          error={error}
          id={({ id }) => id}
          columns={columns}
          nothing={
            <Nothing icon="batches" title="There are no batches">
              <p>The client library creates a batch with client.batch, and scripts with codeq.</p>
            </Nothing>
          }
        />
      </Panel>
    </>
  );
}

const columns: readonly Column<Batch>[] = [
  title("Batch", ({ id }) => (
    <a class="qname" href={batchHref(id)} title={id}>
      <bdi>{id}</bdi>
    </a>
  )),
  column("Callback", ({ command }) => <QueueLink name={command} />),
  column("Phase", ({ phase }) => <PhaseBadge phase={phase} />),
  column("Progress", (batch) => <Progress batch={batch} />),
  num("Failed", ({ failed }) => count(failed)),
  num("Created", ({ createdAt }) => <Time at={createdAt} />, "faint"),
];

export function batchHref(id: string): string {
  return href(`/batches/${encodeURIComponent(id)}`);
}

function PhaseBadge({ phase }: { readonly phase: Phase }): JSX.Element {
  return <Badge {...looks[phase]}>{phase}</Badge>;
}

function Progress({ batch }: { readonly batch: Batch }): JSX.Element {
  const { total, pending } = batch;
  const text = `${count(total - pending)} of ${count(total)} ended`;
  return (
    <>
      <progress class="job" max={Math.max(total, 1)} value={total - pending} aria-label={text} />
      <span class="faint">{text}</span>
    </>
  );
}

export function BatchDetails({ id }: { readonly id: string }): JSX.Element {
  const request = callOf("GET /admin/batches/:id", { params: { id } });
  const { data: batch, error } = useAnswer("batches", request, { everyMs });
  if (batch === undefined && error?.code === "batch_not_found") {
    return (
      <Nothing title="There is no such batch" icon="batches" isPage>
        <p>
          A batch is deleted with its callback. <a href={href("/batches")}>All batches</a>
        </p>
      </Nothing>
    );
  }
  if (batch === undefined) return <Pending error={error} />;
  const failed = { batch: id, place: "failure" } as const;
  return (
    <>
      <PageHead title={<bdi>{id}</bdi>}>
        <Actions batch={batch} />
      </PageHead>
      <PhaseNote batch={batch} />
      <section class="stats" aria-label="Counts">
        <Stat label="Pending" to={tasksOf(id)} note={`of ${plural(batch.total, "member")}`}>
          {count(batch.pending)}
        </Stat>
        <Stat label="Succeeded" note="completed">
          {count(batch.succeeded)}
        </Stat>
        <Stat label="Failed" level={batch.failed > 0 ? "bad" : undefined} note="or dead letters">
          {count(batch.failed)}
        </Stat>
        <Stat label="Cancelled" note="members">
          {count(batch.cancelled)}
        </Stat>
      </section>
      <Panel title="Callback" id="callback" note={<PhaseBadge phase={batch.phase} />}>
        <div class="panel-body">
          <Progress batch={batch} />
          <Facts
            of={[
              ["Task", <TaskLink key="task" id={batch.callbackId} />],
              ["Queue", <QueueLink key="queue" name={batch.command} />],
              ["Runs when", conditionOf(batch)],
              ["Created", <Time key="created" at={batch.createdAt} />],
              ["Open until", <Time key="open" at={batch.openUntil} none="sealed" />],
              ["Ended", <Time key="ended" at={batch.endedAt} none="–" />],
            ]}
          />
        </div>
      </Panel>
      {batch.failed === 0 ? null : <Members title="Failed members" id="failed" query={failed} />}
      <Members title="Members" id="members" query={{ batch: id }} />
    </>
  );
}

function conditionOf({ on, failFast }: Batch): string {
  const when = on === "end" ? "every member has ended" : "every member succeeded";
  return failFast ? `${when}; the first failure cancels the rest` : when;
}

function tasksOf(id: string): string {
  return href("/tasks", { q: showFilter([{ key: "batch", value: id }]) });
}

function PhaseNote({ batch }: { readonly batch: Batch }): JSX.Element {
  const { phase, pending, total, openUntil, failure } = batch;
  const waits = `waits for ${count(pending)} of ${plural(total, "member")}`;
  const why = failure && (
    <>
      {" "}
      Task <TaskLink id={failure.taskId} />: <Given text={failure.error ?? ""} max={300} />
    </>
  );
  const texts: Readonly<Record<Phase, ComponentChildren>> = {
    open: (
      <>
        The callback {waits}, and for the batch to be sealed. If it is not sealed, it expires{" "}
        <Time at={openUntil} />.
      </>
    ),
    sealed: `The callback ${waits}.`,
    released: "The members have ended, and the callback was released.",
    failed: "The callback is a dead letter. It is held again when the failed members are replayed.",
    cancelled: "The batch was cancelled, and its callback with it.",
    expired: "The batch was not sealed in time. The callback is a dead letter; members go on.",
  };
  const isBad = phase === "failed" || phase === "expired";
  return (
    <Note icon={looks[phase].icon} tone={isBad ? "warn" : undefined}>
      {texts[phase]}
      {why}
    </Note>
  );
}

function Members(props: {
  readonly title: string;
  readonly id: string;
  readonly query: { readonly batch: string; readonly place?: "failure" };
}): JSX.Element {
  const request = callOf("GET /admin/tasks", { query: { ...props.query, limit: membersShown } });
  const { data, error } = useAnswer("batches", request, { everyMs });
  return (
    <Panel
      title={props.title}
      id={props.id}
      note={data?.next && `the first ${membersShown}`}
      actions={<a href={tasksOf(props.query.batch)}>All members</a>}
    >
      <CardTable
        rows={data?.tasks}
        error={error}
        id={({ id }) => id}
        columns={memberColumns}
        nothing={<p class="panel-body muted">None.</p>}
      />
    </Panel>
  );
}

const memberColumns: readonly Column<Member>[] = [
  title("Task", ({ id }) => <TaskLink id={id} />),
  column("State", ({ place }) => <State name={place} />),
  column("Queue", ({ command }) => <QueueLink name={command} />),
  column("Last error", ({ error = "" }) => <Given text={error} max={200} />, "any"),
  num("Changed", ({ updatedAt }) => <Time at={updatedAt} />, "faint"),
];

function Actions({ batch }: { readonly batch: Batch }): JSX.Element {
  const { id, phase, failed } = batch;
  const params = { id };
  const query = { batch: id, place: "failure" } as const;
  const shownAs = showFilter([
    { key: "batch", value: id },
    { key: "state", value: "failure" },
  ]);
  const seal = callOf("POST /admin/batches/:id/seal", { params });
  return (
    <>
      <a class="btn" href={tasksOf(id)}>
        <Icon name="tasks" />
        Open tasks
      </a>
      {failed === 0 ? null : (
        <Act icon="replay" onClick={() => askBulkJob("replay", { filter: query, shown: shownAs })}>
          Replay failed…
        </Act>
      )}
      {phase === "open" ? (
        <Act icon="check" onClick={() => sendNow(seal, `Sealed ${id}`, "batches")}>
          Seal
        </Act>
      ) : null}
      {phase === "open" || phase === "sealed" ? (
        <Act class="danger" icon="x" onClick={() => openDialog(<CancelDialog id={id} />)}>
          Cancel…
        </Act>
      ) : null}
    </>
  );
}

/** Asks again, so that the number is that of now. */
function CancelDialog({ id }: { readonly id: string }): JSX.Element {
  const params = { id };
  const request = callOf("GET /admin/batches/:id", { params });
  const { data: batch } = useAnswer("batches", request, { everyMs });
  const call = callOf("POST /admin/batches/:id/cancel", { params });
  return (
    <ActionDialog
      title="Cancel this batch?"
      about="The callback and these members end as cancelled. Workers are notified to stop."
      button="Cancel batch"
      icon="x"
      isFinal
      isReady={batch !== undefined}
      call={call}
      run={() => sendCall(call, `Cancelled ${id}`, "batches")}
    >
      <Blast
        count={batch === undefined ? "…" : count(batch.pending)}
        what="members that have not ended, and the callback"
      />
    </ActionDialog>
  );
}
