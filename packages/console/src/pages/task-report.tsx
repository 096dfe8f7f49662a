/** What the worker says while it works: how far it is, and its log. */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { plural } from "../format.ts";
import type { TaskRow } from "../model/tasks.ts";
import { Given, Panel, Time } from "../parts/basics.tsx";

export function TaskReport({ task }: { readonly task: TaskRow }): JSX.Element | null {
  const { progress, logs = [] } = task;
  if (progress === undefined && logs.length === 0) return null;
  const note = logs.length === 0 ? undefined : `last ${plural(logs.length, "line")}`;
  return (
    <Panel title="Progress and log" id="report" note={note}>
      {progress === undefined ? null : (
        <div class="panel-body report">
          <progress value={progress.percent} max={100} aria-label="Progress of the task" />
          <b>{progress.percent}%</b>
          <span class="grow">
            <Given text={progress.text} max={300} />
          </span>
          <span class="faint">
            <Time at={progress.at} />
          </span>
        </div>
      )}
      {logs.length === 0 ? null : <LogLines logs={logs} />}
    </Panel>
  );
}

/** Stays at the end while somebody looks at the end. */
function LogLines({ logs }: { readonly logs: NonNullable<TaskRow["logs"]> }): JSX.Element {
  const element = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    const box = element.current;
    if (box !== null && isAtEnd.current) box.scrollTop = box.scrollHeight;
  }, [logs]);
  return (
    <div
      class="log"
      ref={element}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard.
      tabIndex={0}
      role="log"
      aria-label="Log of the task"
      onScroll={({ currentTarget: box }) => {
        isAtEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < 8;
      }}
    >
      {logs.map(({ at, text }, index) => (
        <div key={`${at} ${index}`}>
          <span class="faint">
            <Time at={at} />
          </span>
          <Given text={text} max={2000} />
        </div>
      ))}
    </div>
  );
}
