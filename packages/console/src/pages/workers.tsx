/** Who works: connected, what each holds, who is slow or has gone silent, and why one gets no tasks. */
import type { JSX } from "preact";
import { isSilent } from "../attention.ts";
import { count, plural } from "../format.ts";
import { useWorkers, type Worker } from "../model/server.ts";
import { closeDialog, InfoDialog, openDialog } from "../overlays/dialog.tsx";
import { Badge, Given, Nothing, PageHead, Pending, QueueLink, Time } from "../parts/basics.tsx";
import { Button } from "../parts/buttons.tsx";
import { actions, CardTable, type Column, column, num, title } from "../parts/tables.tsx";
import { useNow } from "../preferences.ts";
import { useAnswer } from "../query.ts";
import { href } from "../router.ts";
import { showFilter } from "../task-filter.ts";

export function Workers(): JSX.Element {
  const { data, error } = useWorkers();
  const nowMs = useNow();
  if (data === undefined) return <Pending error={error} />;
  const { workers } = data;
  const connected = workers.filter(({ streams }) => streams > 0).length;
  const leases = workers.reduce((sum, each) => sum + each.leases, 0);
  const partial = data.isPartial === true ? "; not all leases were counted" : "";
  return (
    <>
      <PageHead
        title="Workers"
        about={`${plural(workers.length, "worker")}, ${count(connected)} connected by stream, ${plural(leases, "lease")} held${partial}`}
      />
      <section class="panel" aria-label="Workers">
        <CardTable
          rows={workers}
          id={({ workerId }) => workerId}
          columns={columnsAt(nowMs)}
          nothing={
            <Nothing icon="workers" title="No worker is connected">
              <p>
                Start one: <code>npx codeq work &lt;queue&gt; -- &lt;command&gt;</code>
              </p>
            </Nothing>
          }
        />
      </section>
    </>
  );
}

function columnsAt(nowMs: number): readonly Column<Worker>[] {
  return [
    title(
      "Worker",
      ({ workerId, client }) => (
        <>
          <b>
            <Given text={workerId} max={120} />
          </b>
          {client === undefined ? null : (
            <span class="sub">
              <Given text={client} max={80} />
            </span>
          )}
        </>
      ),
      "full two",
    ),
    column("State", (worker) => <WorkerState worker={worker} nowMs={nowMs} />),
    num("Leases", ({ leases, workerId }) =>
      leases === 0 ? "0" : <a href={leasedBy(workerId)}>{count(leases)}</a>,
    ),
    num("Streams", ({ streams }) => count(streams)),
    num("Connected", ({ connectedAt }) => <Time at={connectedAt} none="–" />),
    num("Oldest lease", ({ oldestLeaseAt }) => <Time at={oldestLeaseAt} none="–" />),
    num("Last heard", ({ lastSeenAt }) => <Time at={lastSeenAt} none="–" />),
    actions(({ workerId }) => (
      <Button
        class="sm"
        aria-label={`Why does ${workerId} get no tasks?`}
        onClick={() => openDialog(() => <ExplainWorker workerId={workerId} />)}
      >
        Why?
      </Button>
    )),
  ];
}

function leasedBy(worker: string): string {
  const tokens = [
    { key: "state", value: "leased" },
    { key: "worker", value: worker },
  ];
  return href("/tasks", { q: showFilter(tokens) });
}

/** A task that takes so long holds up its worker, or is stuck. */
const slowMs = 10 * 60_000;

function WorkerState({ worker, nowMs }: { worker: Worker; nowMs: number }): JSX.Element {
  const { oldestLeaseAt, streams } = worker;
  const isSlow = oldestLeaseAt !== undefined && nowMs - Date.parse(oldestLeaseAt) >= slowMs;
  const [tone, icon, word] = isSilent(worker, nowMs)
    ? (["warn", "deaf", "Silent"] as const)
    : isSlow
      ? (["warn", "delayed", "Slow"] as const)
      : streams > 0
        ? (["done", "done", "Connected"] as const)
        : (["mute", "ready", "HTTP"] as const);
  return (
    <Badge tone={tone} icon={icon}>
      {word}
    </Badge>
  );
}

interface WorkerExplanation {
  readonly why: string;
  readonly leases: number;
  readonly claims: number;
  readonly asksFor?: readonly string[] | "all";
  readonly queues: readonly {
    readonly command: string;
    readonly rule: string;
    readonly ready: number;
    readonly delayed: number;
    readonly inProgress: number;
  }[];
}

/** Why a worker gets no tasks, as the server decides about its claims. */
function ExplainWorker({ workerId }: { readonly workerId: string }): JSX.Element {
  const request = { path: `/v1/codeq/admin/workers/${encodeURIComponent(workerId)}/explain` };
  const { data, error } = useAnswer<WorkerExplanation>("worker", request, { everyMs: 2000 });
  return (
    <InfoDialog
      title="Why does this worker get no tasks?"
      about={<Given text={workerId} max={200} />}
    >
      {data === undefined ? <Pending error={error} /> : <Answer of={data} />}
    </InfoDialog>
  );
}

function Answer({ of }: { readonly of: WorkerExplanation }): JSX.Element {
  const { asksFor, queues } = of;
  const asked =
    asksFor === undefined
      ? ""
      : `, asks for ${asksFor === "all" ? "every queue" : plural(asksFor.length, "queue")}`;
  return (
    <>
      <p class="answer">
        <Given text={of.why} max={500} />
      </p>
      <p class="muted">
        {plural(of.leases, "lease")}, {plural(of.claims, "open claim")}
        {asked}
      </p>
      <ul class="list">
        {queues.map(({ command, rule, ready, delayed, inProgress }) => (
          <li key={command}>
            <QueueLink name={command} onClick={closeDialog} />
            <span class="faint">
              {rule}: {count(ready)} ready, {count(delayed)} delayed, {count(inProgress)} leased
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}
