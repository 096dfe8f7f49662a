/** What became of the webhook of a task: each try, and the way to send it once more. */
import type { JSX } from "preact";
import { duration, plural } from "../format.ts";
import { type TaskRow, taskPath } from "../model/tasks.ts";
import {
  Given,
  Line,
  List,
  Panel,
  Pending,
  State,
  type StateName,
  Time,
} from "../parts/basics.tsx";
import { Act } from "../parts/buttons.tsx";
import { useAnswer } from "../query.ts";
import { redeliver } from "./task-actions.tsx";

interface Try {
  readonly at: string;
  /** Undefined when no answer came. */
  readonly status?: number;
  readonly durationMs: number;
  readonly error?: string;
}

interface Webhook {
  readonly url?: string;
  readonly state: "none" | "pending" | "waiting" | "delivered" | "failed";
  readonly error?: string;
  readonly nextTryAt?: string;
  readonly total: number;
  readonly tries: readonly Try[];
}

const words: Readonly<
  Record<Webhook["state"], { readonly name: StateName; readonly word: string }>
> = {
  none: { name: "cancelled", word: "No webhook" },
  pending: { name: "delayed", word: "When the task has ended" },
  waiting: { name: "delayed", word: "On its way" },
  delivered: { name: "done", word: "Delivered" },
  failed: { name: "failed", word: "Given up" },
};

export function TaskWebhook({ task }: { readonly task: TaskRow }): JSX.Element {
  const request = { path: taskPath(task.id, "/deliveries") };
  const { data, error } = useAnswer<Webhook>("deliveries", request, { everyMs: 2000 });
  const send = (
    <Act class="sm" icon="replay" onClick={() => redeliver(task.id)}>
      Send again
    </Act>
  );
  return (
    <Panel
      title="Webhook"
      id="webhook"
      note={data && plural(data.total, "try", "tries")}
      actions={data === undefined || data.state === "pending" ? undefined : send}
    >
      {data === undefined ? <Pending error={error} /> : <Tries webhook={data} />}
    </Panel>
  );
}

function Tries({ webhook }: { readonly webhook: Webhook }): JSX.Element {
  const { url = "", state, nextTryAt, tries } = webhook;
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
        {webhook.error === undefined ? null : (
          <p class="fp">
            <Given text={webhook.error} max={300} />
          </p>
        )}
      </div>
      <List rows={[...tries].reverse()}>
        {(each) => (
          <Line
            key={each.at}
            {...(isTaken(each) ? good : bad)}
            action={
              <span class="faint">
                <Time at={each.at} />
              </span>
            }
            sub={each.error && <Given text={each.error} max={300} />}
          >
            {each.status === undefined ? "No answer" : `Answered ${each.status}`} after{" "}
            {duration(each.durationMs)}
          </Line>
        )}
      </List>
    </>
  );
}

const good = { icon: "done", tone: "good" } as const;
const bad = { icon: "failed", tone: "bad" } as const;

function isTaken({ status = 0 }: Try): boolean {
  return status >= 200 && status < 300;
}
