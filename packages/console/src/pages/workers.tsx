/** Who works: connected, what each holds, who has gone silent. */
import type { JSX } from "preact";
import { isSilent } from "../attention.ts";
import { count, plural } from "../format.ts";
import { useWorkers, type Worker } from "../model/server.ts";
import { Given, Nothing, Pending, Time } from "../parts/basics.tsx";
import { Icon } from "../parts/icon.tsx";
import { useNow } from "../preferences.ts";
import { href } from "../router.ts";
import { showFilter } from "../task-filter.ts";

export function Workers(): JSX.Element {
  const { data, error } = useWorkers();
  if (data === undefined) return <Pending error={error} />;
  const { workers } = data;
  const connected = workers.filter(({ streams }) => streams > 0).length;
  const leases = workers.reduce((sum, each) => sum + each.leases, 0);
  return (
    <>
      <div class="page-head">
        <div>
          <h1>Workers</h1>
          <p>
            {plural(workers.length, "worker")}, {count(connected)} connected by stream,{" "}
            {plural(leases, "lease")} held
            {data.isPartial === true ? "; not all leases were counted" : ""}
          </p>
        </div>
      </div>
      <section class="panel" aria-label="Workers">
        {workers.length === 0 ? (
          <Nothing icon="workers" title="No worker is connected">
            <p>
              Start one: <code>npx codeq work &lt;queue&gt; -- &lt;command&gt;</code>
            </p>
          </Nothing>
        ) : (
          <div class="table-wrap">
            <table class="cards">
              <thead>
                <tr>
                  <th>Worker</th>
                  <th>State</th>
                  <th class="num">Leases</th>
                  <th class="num">Streams</th>
                  <th class="num">Connected</th>
                  <th class="num">Oldest lease</th>
                  <th class="num">Last heard</th>
                </tr>
              </thead>
              <tbody>
                {workers.map((worker) => (
                  <Row key={worker.workerId} worker={worker} />
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
    </>
  );
}

function Row({ worker }: { readonly worker: Worker }): JSX.Element {
  const nowMs = useNow();
  const { workerId, leases, streams } = worker;
  const silent = isSilent(worker, nowMs);
  const tokens = [
    { key: "state", value: "leased" },
    { key: "worker", value: workerId },
  ];
  return (
    <tr data-row="">
      <td class="full name">
        <b>
          <Given text={workerId} max={120} />
        </b>
      </td>
      <td data-l="State">
        <span class={`st ${silent ? "st-warn" : streams > 0 ? "st-done" : "st-mute"}`}>
          <Icon name={silent ? "deaf" : streams > 0 ? "done" : "ready"} small />
          {silent ? "Silent" : streams > 0 ? "Connected" : "HTTP"}
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
    </tr>
  );
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
