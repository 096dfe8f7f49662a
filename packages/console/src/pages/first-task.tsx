/** For a server without tasks: the commands that create the first task. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { createCall } from "../model/tasks.ts";
import { CodeBox } from "../parts/basics.tsx";
import { Button } from "../parts/buttons.tsx";
import { Choices } from "../parts/fields.tsx";
import { Icon } from "../parts/icon.tsx";
import { sendNow } from "../toasts.tsx";

type Language = "cli" | "curl" | "ts";

export function FirstTask(): JSX.Element {
  const [language, setLanguage] = useState<Language>("cli");
  const { origin } = window.location;
  const enqueue: Readonly<Record<Language, string>> = {
    cli: `npx codeq enqueue hello '{"name":"world"}' --wait`,
    curl: `curl -s ${origin}/v1/codeq/tasks -H 'Authorization: Bearer dev-token' \\\n  -d '{"command":"hello","payload":{"name":"world"}}'`,
    ts: [
      'import { codeq, task } from "@codeq/client";',
      "",
      `const client = codeq({ url: "${origin}", token: "dev-token" });`,
      'await client.enqueue(task("hello"), { name: "world" });',
    ].join("\n"),
  };
  const create = createCall("hello", '{"name":"world"}');
  return (
    <div class="empty">
      <div>
        <h1>No tasks yet</h1>
        <p class="muted">
          The server runs on <code>{window.location.host}</code>. Start a worker, then send it a
          task.
        </p>
      </div>
      <ol class="start">
        <li>
          <span class="no">1</span>
          <div>
            <h2>
              Start a worker for the queue <code>hello</code>
            </h2>
            <p>
              In a second terminal. The worker runs <code>cat</code>: the result is the payload.
            </p>
            <CodeBox text="npx codeq work hello -- cat" label="Command that starts a worker" />
          </div>
        </li>
        <li>
          <span class="no">2</span>
          <div>
            <h2>Enqueue a task and wait for its result</h2>
            <p>In a third terminal, or from your code.</p>
            <p>
              <Choices
                label="Language"
                options={{ cli: "CLI", curl: "curl", ts: "TypeScript" }}
                value={language}
                onChange={setLanguage}
              />
            </p>
            <CodeBox text={enqueue[language]} label="How to enqueue a task" />
          </div>
        </li>
        <li>
          <span class="no">
            <Icon name="delayed" />
          </span>
          <div>
            <h2>Waiting for the first task</h2>
            <p>
              This page shows the task when it arrives.{" "}
              <Button
                class="sm"
                onClick={() => sendNow(create, "Enqueued a task in the queue hello", "queues")}
              >
                Enqueue it from here
              </Button>
            </p>
          </div>
        </li>
      </ol>
    </div>
  );
}
