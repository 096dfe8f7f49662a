/** A form that enqueues one task, with the payloads sent before. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, curlOf, tenant } from "../../api.ts";
import { jsonProblem } from "../../json-lines.ts";
import { useKnownQueues } from "../../model/queues.ts";
import { createCall } from "../../model/tasks.ts";
import { CodeBox, Line, List, Note, PageHead, Panel, Problem } from "../../parts/basics.tsx";
import { Button } from "../../parts/buttons.tsx";
import { PayloadField, TextField } from "../../parts/fields.tsx";
import { invalidate } from "../../query.ts";
import { href, navigate, useLocation } from "../../router.ts";
import { session } from "../../session.ts";
import { keptStore, useStore } from "../../store.ts";
import { tell } from "../../toasts.tsx";

interface Sent {
  readonly command: string;
  readonly payload: string;
}

const sentMax = 8;

const sentBefore = keptStore<readonly Sent[]>("sent", []);

function remember(next: Sent): void {
  const others = sentBefore
    .get()
    .filter(({ command, payload }) => command !== next.command || payload !== next.payload);
  sentBefore.set([next, ...others].slice(0, sentMax));
}

export function enqueueLike(command: string, payload: string): void {
  remember({ command, payload });
  navigate(href("/enqueue", { queue: command }));
}

export function Enqueue(): JSX.Element {
  const { query } = useLocation();
  const { data: queues = [] } = useKnownQueues();
  const of = useStore(tenant);
  const sent = useStore(sentBefore);
  const [command, setCommand] = useState(query.get("queue") ?? sent[0]?.command ?? "hello");
  const [payload, setPayload] = useState(sent[0]?.payload ?? '{\n  "name": "world"\n}');
  const [priority, setPriority] = useState("0");
  const [delay, setDelay] = useState("0");
  const [problem, setProblem] = useState("");
  const call = createCall(command, payload, {
    ...(Number(priority) > 0 ? { priority: Number(priority) } : {}),
    ...(Number(delay) > 0 ? { delaySeconds: Number(delay) } : {}),
  });
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      const { id } = await ask(call);
      remember({ command, payload });
      setProblem("");
      tell(`Enqueued a task in ${command}`, { href: href(`/tasks/${id}`), text: "Open it" });
      invalidate("queues");
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  const use = (each: Sent): void => {
    setCommand(each.command);
    setPayload(each.payload);
  };
  return (
    <>
      <PageHead
        title="Enqueue"
        about="Sends one task, for trying things. Programs use the API or the client library."
      />
      <div class="cols c-7-5">
        <Panel title="Task" id="task">
          <form class="panel-body why" onSubmit={(event) => void submit(event)}>
            {of === "" ? null : (
              <Note icon="warn" tone="warn">
                The task goes to your own tenant, <b>{session.get()?.tenantId}</b>, and not to{" "}
                <b>{of}</b>: only administration crosses tenants.
              </Note>
            )}
            <TextField
              label="Queue"
              isCode
              value={command}
              onChange={setCommand}
              input={{ list: "queues", required: true }}
            />
            <datalist id="queues">
              {queues.map(({ name }) => (
                <option key={name} value={name} />
              ))}
            </datalist>
            <PayloadField
              rows={10}
              value={payload}
              good="Valid JSON. Numbers are sent exactly as written."
              onChange={setPayload}
            />
            <div class="cols c-6-6">
              <TextField
                label="Priority, 0 to 9"
                value={priority}
                onChange={setPriority}
                input={{ type: "number", min: 0, max: 9 }}
              />
              <TextField
                label="Delay in seconds"
                value={delay}
                onChange={setDelay}
                input={{ type: "number", min: 0 }}
              />
            </div>
            <Problem text={problem} />
            <p>
              <Button
                class="primary"
                icon="plus"
                type="submit"
                disabled={jsonProblem(payload) !== undefined || command.trim() === ""}
              >
                Enqueue task
              </Button>
            </p>
          </form>
        </Panel>
        <div class="cols">
          <Panel title="API call" id="call">
            <div class="panel-body">
              <CodeBox text={curlOf(call)} label="Call with curl" />
            </div>
          </Panel>
          <Panel title="Sent before" id="sent" note="kept in this browser">
            <List rows={sent} nothing={<p class="panel-body muted">Nothing yet.</p>}>
              {(each) => (
                <Line
                  key={each.command + each.payload}
                  icon="tasks"
                  isCut
                  action={
                    <Button class="sm" onClick={() => use(each)}>
                      Use
                    </Button>
                  }
                >
                  <b>
                    <bdi>{each.command}</bdi>
                  </b>{" "}
                  <code>{each.payload.replace(/\s+/g, " ").slice(0, 80)}</code>
                </Line>
              )}
            </List>
          </Panel>
        </div>
      </div>
    </>
  );
}
