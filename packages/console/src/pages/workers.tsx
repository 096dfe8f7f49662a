/** Workers with their leases and state, and why a worker gets no tasks. */
import type { ReplyOf } from "@codeq/protocol";
import type { JSX } from "preact";
import { callOf } from "../api.ts";
import { isSilent } from "../attention.ts";
import { count, plural, workerName } from "../format.ts";
import { useWorkers, type Worker } from "../model/server.ts";
import { closeDialog, InfoDialog, openDialog } from "../overlays/dialog.tsx";
import {
  Badge,
  Given,
  Nothing,
  PageHead,
  Pending,
  QueueLink,
  Time,
  WorkerName,
} from "../parts/basics.tsx";
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
            <WorkerName id={workerId} />
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
        aria-label={`Why does ${workerName(workerId)} get no tasks?`}
        onClick={() => openDialog(<ExplainWorker workerId={workerId} />)}
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

/** A worker with a lease this old is marked as slow. */
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

function ExplainWorker({ workerId }: { readonly workerId: string }): JSX.Element {
  const request = callOf("GET /admin/workers/:workerId/explain", { params: { workerId } });
  const { data, error } = useAnswer("worker", request, { everyMs: 2000 });
  return (
    <InfoDialog
      title="Why does this worker get no tasks?"
      about={<Given text={workerName(workerId)} max={200} />}
    >
      {data === undefined ? <Pending error={error} /> : <Answer of={data} />}
    </InfoDialog>
  );
}

type Explanation = ReplyOf<"GET /admin/workers/:workerId/explain">;

function Answer({ of }: { readonly of: Explanation }): JSX.Element {
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
