/** A form to try things: one task, with the payloads that were sent before. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, curlOf, tenant } from "../api.ts";
import { jsonProblem } from "../json-lines.ts";
import { useKnownQueues } from "../model/queues.ts";
import { Panel } from "../parts/basics.tsx";
import { CodeBox } from "../parts/code-box.tsx";
import { Icon } from "../parts/icon.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { invalidate } from "../query.ts";
import { href, navigate, useLocation } from "../router.ts";
import { session } from "../session.ts";
import { keep, readKept, useStore } from "../store.ts";
import { tell } from "../toasts.tsx";

interface Sent {
  readonly command: string;
  readonly payload: string;
}

const sentMax = 8;

function readSent(): readonly Sent[] {
  return JSON.parse(readKept("sent") ?? "[]") as Sent[];
}

function remember(sent: readonly Sent[], next: Sent): readonly Sent[] {
  const others = sent.filter(
    ({ command, payload }) => command !== next.command || payload !== next.payload,
  );
  const all = [next, ...others].slice(0, sentMax);
  keep("sent", JSON.stringify(all));
  return all;
}

/** Opens the form with what another task carries. */
export function enqueueLike(command: string, payload: string): void {
  remember(readSent(), { command, payload });
  navigate(href("/enqueue", { queue: command }));
}

export function Enqueue(): JSX.Element {
  const { query } = useLocation();
  const { data: queues = [] } = useKnownQueues();
  const of = useStore(tenant);
  const [sent, setSent] = useState(readSent());
  const [command, setCommand] = useState(query.get("queue") ?? sent[0]?.command ?? "hello");
  const [payload, setPayload] = useState(sent[0]?.payload ?? '{\n  "name": "world"\n}');
  const [priority, setPriority] = useState("0");
  const [delay, setDelay] = useState("0");
  const [problem, setProblem] = useState("");
  const wrong = jsonProblem(payload);
  const body =
    `{"command":${JSON.stringify(command)},"payload":${payload}` +
    `${Number(priority) > 0 ? `,"priority":${Number(priority)}` : ""}` +
    `${Number(delay) > 0 ? `,"delaySeconds":${Number(delay)}` : ""}}`;
  const call = { method: "POST", path: "/v1/codeq/tasks", body } as const;
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      const { id } = await ask<{ id: string }>(call);
      setSent(remember(sent, { command, payload }));
      setProblem("");
      tell(`Enqueued a task in ${command}`, { href: href(`/tasks/${id}`), text: "Open it" });
      invalidate("queues");
    } catch (error) {
      setProblem((error as Error).message);
    }
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
              <p class="note is-warn">
                <Icon name="warn" />
                <span>
                  The task goes to your own tenant, <b>{session.get()?.tenantId}</b>, and not to{" "}
                  <b>{of}</b>: only administration crosses tenants.
                </span>
              </p>
            )}
            <label class="field">
              <span>Queue</span>
              <input
                class="input mono"
                list="queues"
                required
                value={command}
                onInput={(event) => setCommand(event.currentTarget.value)}
              />
            </label>
            <datalist id="queues">
              {queues.map(({ name }) => (
                <option key={name} value={name} />
              ))}
            </datalist>
            <label class="field">
              <span>Payload</span>
              <textarea
                class="input code-edit"
                rows={10}
                spellcheck={false}
                aria-invalid={wrong !== undefined}
                value={payload}
                onInput={(event) => setPayload(event.currentTarget.value)}
              />
            </label>
            <p class={wrong === undefined ? "good" : "bad"} role="status">
              {wrong ?? "Valid JSON. Numbers are sent exactly as written."}
            </p>
            <div class="cols c-6-6">
              <label class="field">
                <span>Priority, 0 to 9</span>
                <input
                  class="input"
                  type="number"
                  min="0"
                  max="9"
                  value={priority}
                  onInput={(event) => setPriority(event.currentTarget.value)}
                />
              </label>
              <label class="field">
                <span>Delay in seconds</span>
                <input
                  class="input"
                  type="number"
                  min="0"
                  value={delay}
                  onInput={(event) => setDelay(event.currentTarget.value)}
                />
              </label>
            </div>
            {problem === "" ? null : (
              <p class="note is-bad" role="alert">
                <Icon name="warn" />
                <span>{problem}</span>
              </p>
            )}
            <p>
              <button
                class="btn primary"
                type="submit"
                disabled={wrong !== undefined || command.trim() === ""}
              >
                <Icon name="plus" />
                Enqueue task
              </button>
            </p>
          </form>
        </Panel>
        <div class="cols">
          <Panel title="API call" id="call">
            <div class="panel-body">
              <CodeBox
                text={curlOf({ method: "POST", url: call.path, body })}
                label="Call with curl"
              />
            </div>
          </Panel>
          <Panel title="Sent before" id="sent" note="kept in this browser">
            {sent.length === 0 ? (
              <p class="panel-body muted">Nothing yet.</p>
            ) : (
              <ul class="list">
                {sent.map((each) => (
                  <li key={each.command + each.payload}>
                    <Icon name="tasks" />
                    <span class="trunc">
                      <b>
                        <bdi>{each.command}</bdi>
                      </b>{" "}
                      <code>{each.payload.replace(/\s+/g, " ").slice(0, 80)}</code>
                    </span>
                    <button
                      class="btn sm"
                      type="button"
                      onClick={() => {
                        setCommand(each.command);
                        setPayload(each.payload);
                      }}
                    >
                      Use
                    </button>
                  </li>
                ))}
              </ul>
            )}
          </Panel>
        </div>
      </div>
    </>
  );
}
