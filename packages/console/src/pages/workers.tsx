/** Who works: connected, what each holds, who is slow or has gone silent. */
import type { JSX } from "preact";
import { isSilent } from "../attention.ts";
import { count, plural } from "../format.ts";
import { useWorkers, type Worker } from "../model/server.ts";
import { Given, Nothing, Pending, Time } from "../parts/basics.tsx";
import { CardTable, num } from "../parts/card-table.tsx";
import { Icon, type IconName } from "../parts/icon.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { useNow } from "../preferences.ts";
import { href } from "../router.ts";
import { showFilter } from "../task-filter.ts";
import { explainWorker } from "./explain-worker.tsx";

export function Workers(): JSX.Element {
  const { data, error } = useWorkers();
  if (data === undefined) return <Pending error={error} />;
  const { workers } = data;
  const connected = workers.filter(({ streams }) => streams > 0).length;
  const leases = workers.reduce((sum, each) => sum + each.leases, 0);
  return (
    <>
      <PageHead
        title="Workers"
        about={
          <>
            {plural(workers.length, "worker")}, {count(connected)} connected by stream,{" "}
            {plural(leases, "lease")} held
            {data.isPartial === true ? "; not all leases were counted" : ""}
          </>
        }
      />
      <section class="panel" aria-label="Workers">
        {workers.length === 0 ? (
          <Nothing icon="workers" title="No worker is connected">
            <p>
              Start one: <code>npx codeq work &lt;queue&gt; -- &lt;command&gt;</code>
            </p>
          </Nothing>
        ) : (
          <CardTable
            heads={[
              "Worker",
              "State",
              num("Leases"),
              num("Streams"),
              num("Connected"),
              num("Oldest lease"),
              num("Last heard"),
            ]}
            hasActions
          >
            {workers.map((worker) => (
              <Row key={worker.workerId} worker={worker} />
            ))}
          </CardTable>
        )}
      </section>
    </>
  );
}

function Row({ worker }: { readonly worker: Worker }): JSX.Element {
  const nowMs = useNow();
  const { workerId, leases, streams } = worker;
  const look = lookOf(worker, nowMs);
  const tokens = [
    { key: "state", value: "leased" },
    { key: "worker", value: workerId },
  ];
  return (
    <tr data-row="">
      <td class="full two">
        <b>
          <Given text={workerId} max={120} />
        </b>
        {worker.client === undefined ? null : (
          <span class="sub">
            <Given text={worker.client} max={80} />
          </span>
        )}
      </td>
      <td data-l="State">
        <span class={`st ${look.tone}`}>
          <Icon name={look.icon} small />
          {look.word}
        </span>
      </td>
      <td class="num" data-l="Leases">
        {leases === 0 ? (
          "0"
        ) : (
          <a href={href("/tasks", { q: showFilter(tokens) })}>{count(leases)}</a>
        )}
      </td>
      <td class="num" data-l="Streams">
        {count(streams)}
      </td>
      <Moment label="Connected" at={worker.connectedAt} />
      <Moment label="Oldest lease" at={worker.oldestLeaseAt} />
      <Moment label="Last heard" at={worker.lastSeenAt} />
      <td class="last">
        <button
          class="btn sm"
          type="button"
          aria-label={`Why does ${workerId} get no tasks?`}
          onClick={() => explainWorker(workerId)}
        >
          Why?
        </button>
      </td>
    </tr>
  );
}

/** A task that takes so long holds up its worker, or is stuck. */
const slowMs = 10 * 60_000;

interface Look {
  readonly tone: string;
  readonly icon: IconName;
  readonly word: string;
}

function lookOf(worker: Worker, nowMs: number): Look {
  if (isSilent(worker, nowMs)) return { tone: "st-warn", icon: "deaf", word: "Silent" };
  const { oldestLeaseAt, streams } = worker;
  if (oldestLeaseAt !== undefined && nowMs - Date.parse(oldestLeaseAt) >= slowMs) {
    return { tone: "st-warn", icon: "delayed", word: "Slow" };
  }
  if (streams > 0) return { tone: "st-done", icon: "done", word: "Connected" };
  return { tone: "st-mute", icon: "ready", word: "HTTP" };
}

function Moment({
  label,
  at,
}: {
  readonly label: string;
  readonly at: string | undefined;
}): JSX.Element {
  return (
    <td class="num" data-l={label}>
      {at === undefined ? "–" : <Time at={at} />}
    </td>
  );
}
