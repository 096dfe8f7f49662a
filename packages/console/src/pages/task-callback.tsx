/** What became of the callback of a task: each try, and the way to send it once more. */
import type { JSX } from "preact";
import { ask, tenant } from "../api.ts";
import { duration, plural } from "../format.ts";
import { type TaskRow, taskPath } from "../model/tasks.ts";
import { Act } from "../parts/act.tsx";
import { Given, Panel, Pending, State, type StateName, Time } from "../parts/basics.tsx";
import { Icon } from "../parts/icon.tsx";
import { useQuery } from "../query.ts";
import { useStore } from "../store.ts";
import { redeliver } from "./task-actions.tsx";

interface Try {
  readonly at: string;
  /** Undefined when no answer came. */
  readonly status?: number;
  readonly durationMs: number;
  readonly error?: string;
}

interface Callback {
  readonly url?: string;
  readonly state: "none" | "pending" | "waiting" | "delivered" | "failed";
  readonly error?: string;
  readonly nextTryAt?: string;
  readonly total: number;
  readonly tries: readonly Try[];
}

const words: Readonly<
  Record<Callback["state"], { readonly name: StateName; readonly word: string }>
> = {
  none: { name: "cancelled", word: "No webhook" },
  pending: { name: "delayed", word: "When the task has ended" },
  waiting: { name: "delayed", word: "On its way" },
  delivered: { name: "done", word: "Delivered" },
  failed: { name: "failed", word: "Given up" },
};

export function TaskCallback({ task }: { readonly task: TaskRow }): JSX.Element {
  const of = useStore(tenant);
  const load = (): Promise<Callback> => ask({ path: taskPath(task.id, "/deliveries") });
  const { data, error } = useQuery(`deliveries:${of}:${task.id}`, load, { everyMs: 2000 });
  const hasEnded = data !== undefined && data.state !== "pending";
  return (
    <Panel
      title="Webhook"
      id="callback"
      note={data === undefined ? undefined : plural(data.total, "try", "tries")}
      actions={
        hasEnded ? (
          <Act class="btn sm" onClick={() => redeliver(task.id)}>
            <Icon name="replay" small />
            Send again
          </Act>
        ) : undefined
      }
    >
      {data === undefined ? <Pending error={error} /> : <Tries callback={data} />}
    </Panel>
  );
}

function Tries({ callback }: { readonly callback: Callback }): JSX.Element {
  const { url = "", state, nextTryAt, tries } = callback;
  return (
    <>
      <div class="panel-body why">
        <p class="row wrap">
          <State {...words[state]} />
          <code class="trunc">
            <Given text={url} max={300} />
          </code>
          {nextTryAt === undefined ? null : (
            <span class="faint">
              next try <Time at={nextTryAt} />
            </span>
          )}
        </p>
        {callback.error === undefined ? null : (
          <p class="fp">
            <Given text={callback.error} max={300} />
          </p>
        )}
      </div>
      {tries.length === 0 ? null : (
        <ul class="list">
          {[...tries].reverse().map((each) => (
            <li key={each.at}>
              <span class={isTaken(each) ? "good" : "bad"}>
                <Icon name={isTaken(each) ? "done" : "failed"} />
              </span>
              <span>
                {each.status === undefined ? "No answer" : `Answered ${each.status}`} after{" "}
                {duration(each.durationMs)}
              </span>
              <span class="faint">
                <Time at={each.at} />
              </span>
              {each.error === undefined ? null : (
                <span class="sub">
                  <Given text={each.error} max={300} />
                </span>
              )}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function isTaken({ status = 0 }: Try): boolean {
  return status >= 200 && status < 300;
}
