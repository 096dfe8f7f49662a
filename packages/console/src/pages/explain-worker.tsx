/** Why a worker gets no tasks, as the server decides about its claims. */
import type { JSX } from "preact";
import { ask, tenant } from "../api.ts";
import { count, plural } from "../format.ts";
import { closeDialog, Dialog, openDialog } from "../overlays/dialog.tsx";
import { Given, Kbd, Pending } from "../parts/basics.tsx";
import { useQuery } from "../query.ts";
import { href } from "../router.ts";
import { useStore } from "../store.ts";

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

export function explainWorker(workerId: string): void {
  openDialog(() => <ExplainWorker workerId={workerId} />);
}

function ExplainWorker({ workerId }: { readonly workerId: string }): JSX.Element {
  const of = useStore(tenant);
  const path = `/v1/codeq/admin/workers/${encodeURIComponent(workerId)}/explain`;
  const { data, error } = useQuery(
    `worker:${of}:${workerId}`,
    () => ask<WorkerExplanation>({ path }),
    { everyMs: 2000 },
  );
  return (
    <Dialog label="Why does this worker get no tasks?">
      <header>
        <h2>Why does this worker get no tasks?</h2>
        <p class="muted">
          <Given text={workerId} max={200} />
        </p>
      </header>
      <div class="body">
        {data === undefined ? <Pending error={error} /> : <Answer of={data} />}
      </div>
      <footer>
        <button class="btn" type="button" onClick={closeDialog} data-first="">
          Close <Kbd>Esc</Kbd>
        </button>
      </footer>
    </Dialog>
  );
}

function Answer({ of }: { readonly of: WorkerExplanation }): JSX.Element {
  const { asksFor, queues } = of;
  return (
    <>
      <p class="answer">
        <Given text={of.why} max={500} />
      </p>
      <p class="muted">
        {plural(of.leases, "lease")}, {plural(of.claims, "open claim")}
        {asksFor === undefined
          ? ""
          : `, asks for ${asksFor === "all" ? "every queue" : plural(asksFor.length, "queue")}`}
      </p>
      <ul class="list">
        {queues.map(({ command, rule, ready, delayed, inProgress }) => (
          <li key={command}>
            <a
              class="qname"
              href={href(`/queues/${encodeURIComponent(command)}`)}
              onClick={closeDialog}
            >
              <bdi>{command}</bdi>
            </a>
            <span class="faint">
              {rule}: {count(ready)} ready, {count(delayed)} delayed, {count(inProgress)} leased
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}
