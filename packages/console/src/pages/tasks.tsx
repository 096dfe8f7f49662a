/** Find tasks, look at them, act on one, some or all that match. */
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { curlOf, tenant, urlOf } from "../api.ts";
import { count, plural, shortId } from "../format.ts";
import { rowKeys, useKeys } from "../keys.ts";
import { csvOf, download } from "../model/download.ts";
import { useKnownQueues } from "../model/queues.ts";
import { newsMax, type TaskList, useTaskList } from "../model/task-list.ts";
import { allTasks, exportMax, stateOf, type TaskRow } from "../model/tasks.ts";
import { showApiCalls } from "../overlays/api-calls.tsx";
import { Act } from "../parts/act.tsx";
import { Given, Kbd, Nothing, Pending, State, Time } from "../parts/basics.tsx";
import { copyText } from "../parts/code-box.tsx";
import { FilterBar } from "../parts/filter-bar.tsx";
import { Icon } from "../parts/icon.tsx";
import { Menu } from "../parts/menu.tsx";
import { PadRow } from "../parts/pad-row.tsx";
import { useVirtualRows } from "../parts/virtual-rows.ts";
import { href, navigate, useLocation } from "../router.ts";
import { mayAct } from "../session.ts";
import { createStore, keep, readKept, useStore } from "../store.ts";
import { filterQuery, parseFilter } from "../task-filter.ts";
import { tell, tellProblem } from "../toasts.tsx";
import { askBulkJob } from "./bulk-job.tsx";
import { askMoveMany } from "./move-tasks.tsx";
import { askDeadLetters, askEach, type Selection } from "./task-actions.tsx";

const rowPx = 37;

interface View {
  readonly title: string;
  readonly filter: string;
}

const builtIn: readonly View[] = [
  { title: "All tasks", filter: "" },
  { title: "Dead letters", filter: "state:dead" },
  { title: "Leased", filter: "state:leased" },
  { title: "Delayed", filter: "state:delayed" },
  { title: "Done in 1 h", filter: "state:done ended:1h" },
];

const savedViews = createStore<readonly View[]>(JSON.parse(readKept("views") ?? "[]") as View[]);
savedViews.subscribe(() => keep("views", JSON.stringify(savedViews.get())));

type Column = "error" | "tags" | "attempts" | "priority" | "worker" | "created";
const columnTitles: Readonly<Record<Column, string>> = {
  error: "Last error",
  tags: "Tags",
  attempts: "Attempts",
  priority: "Priority",
  worker: "Worker",
  created: "Created",
};
const columnNames = Object.keys(columnTitles) as Column[];
const shownColumns = createStore<readonly Column[]>(
  (readKept("columns")?.split(",") as Column[] | undefined) ?? [
    "error",
    "attempts",
    "priority",
    "worker",
  ],
);
shownColumns.subscribe(() => keep("columns", shownColumns.get().join(",")));

export function Tasks(): JSX.Element {
  const { query } = useLocation();
  const of = useStore(tenant);
  const text = query.get("q") ?? "";
  const tokens = useMemo(() => parseFilter(text), [text]);
  // Spans of time are counted from when the filter was set, so that pages fit together.
  const filter = useMemo(() => filterQuery(tokens, Date.now()), [tokens]);
  const { data: queues = [] } = useKnownQueues();
  const list = useTaskList(filter.problem === undefined ? filter.query : undefined, of);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [isAll, setAll] = useState(false);
  useEffect(() => {
    setChosen(new Set());
    setAll(false);
  }, [text, of]);
  const setFilter = (next: string): void =>
    navigate(href("/tasks", { q: next }), { replace: true });
  const selection: Selection = {
    ids: [...chosen],
    filter: isAll ? filter.query : undefined,
    shown: isAll ? text || "all tasks" : "",
  };
  useKeys({
    ...rowKeys("#task-list tbody tr[data-row]"),
    "/": () => document.getElementById("task-filter")?.focus(),
    r: () => {
      if (chosen.size > 0 && mayAct()) askDeadLetters("replay", selection);
    },
  });
  return (
    <>
      <h1 class="sr">Tasks</h1>
      <Views current={text} />
      <FilterBar
        tokens={tokens}
        onChange={setFilter}
        known={{ queue: queues.map(({ name }) => name) }}
        problem={filter.problem ?? list.error?.message}
      />
      <div class="listbar">
        <Matching list={list} />
        {list.news === 0 ? null : (
          <button class="btn sm newpill" type="button" onClick={list.reload}>
            <Icon name="up" small />
            {list.news >= newsMax ? `${newsMax}+` : count(list.news)} new
          </button>
        )}
        <div class="right">
          <ColumnMenu />
          <ExportMenu query={filter.query} />
          <button class="btn sm" type="button" onClick={showApiCalls}>
            <Icon name="api" small />
            API call
          </button>
        </div>
      </div>
      <section class="panel" aria-label="Tasks">
        <TaskRows
          list={list}
          isFiltered={text !== ""}
          chosen={chosen}
          isAll={isAll}
          onChoose={(next) => {
            setChosen(next);
            setAll(false);
          }}
        />
        <div class="panel-foot">
          <span>
            {plural(list.tasks.length, "row")} loaded{list.hasMore ? ", more when you scroll" : ""}
          </span>
          <span class="grow" />
          {hints.map(([key, what]) => (
            <span class="hint hints" key={what}>
              <Kbd>{key}</Kbd>
              {what}
            </span>
          ))}
        </div>
      </section>
      {chosen.size === 0 ? null : (
        <BulkBar
          selection={selection}
          total={list.total}
          place={filter.query["place"]}
          isAll={isAll}
          onAll={() => setAll(true)}
          onClear={() => {
            setChosen(new Set());
            setAll(false);
          }}
        />
      )}
    </>
  );
}

const hints = [
  ["J K", "move"],
  ["X", "select"],
  ["Enter", "open"],
  ["/", "filter"],
] as const;

function Matching({ list }: { readonly list: TaskList }): JSX.Element {
  const { total, tasks, hasMore, scanned } = list;
  if (total !== undefined) {
    return (
      <span>
        <b>{count(total)}</b> matching{" "}
        <span class="faint wide-only">exact, from a counter. Newest first.</span>
      </span>
    );
  }
  return (
    <span>
      <b>{hasMore ? `at least ${count(tasks.length)}` : count(tasks.length)}</b> matching{" "}
      <span class="faint wide-only">{count(scanned)} tasks looked at. Newest first.</span>
      {hasMore && tasks.length === 0 ? (
        <button class="btn sm" type="button" onClick={list.more}>
          Look further
        </button>
      ) : null}
    </span>
  );
}

function Views({ current }: { readonly current: string }): JSX.Element {
  const saved = useStore(savedViews);
  const all = [...builtIn, ...saved];
  const isKnown = all.some(({ filter }) => filter === current);
  return (
    <nav class="views" aria-label="Saved views">
      {all.map(({ title, filter }) => (
        <a
          key={filter}
          href={href("/tasks", { q: filter })}
          aria-current={filter === current ? "true" : undefined}
        >
          <bdi>{title}</bdi>
        </a>
      ))}
      {isKnown ? null : (
        <button
          type="button"
          onClick={() => {
            savedViews.set([...saved, { title: current, filter: current }]);
            tell("Saved in this browser");
          }}
        >
          <Icon name="bookmark" small />
          Save view
        </button>
      )}
      {saved.some(({ filter }) => filter === current) ? (
        <button
          type="button"
          onClick={() => savedViews.set(saved.filter(({ filter }) => filter !== current))}
        >
          <Icon name="x" small />
          Forget view
        </button>
      ) : null}
    </nav>
  );
}

function ColumnMenu(): JSX.Element {
  const shown = useStore(shownColumns);
  return (
    <Menu label="Columns" icon="columns">
      {columnNames.map((name) => (
        <label class="opt" key={name}>
          <input
            type="checkbox"
            checked={shown.includes(name)}
            onChange={(event) => {
              const isOn = event.currentTarget.checked;
              shownColumns.set(
                columnNames.filter((each) => (each === name ? isOn : shown.includes(each))),
              );
            }}
          />
          {columnTitles[name]}
        </label>
      ))}
    </Menu>
  );
}

function ExportMenu({ query }: { readonly query: Readonly<Record<string, string>> }): JSX.Element {
  const run = async (kind: "csv" | "json"): Promise<void> => {
    try {
      const tasks = await allTasks(query);
      if (kind === "json")
        download("tasks.json", "application/json", JSON.stringify(tasks, undefined, 2));
      else download("tasks.csv", "text/csv", taskCsv(tasks));
      tell(
        `Exported ${plural(tasks.length, "task")}${tasks.length === exportMax ? ", the first of more" : ""}`,
      );
    } catch (error) {
      tellProblem(error);
    }
  };
  return (
    <Menu label="Export" icon="download">
      <button class="opt" type="button" onClick={() => void run("csv")}>
        CSV<span class="end">at most {count(exportMax)} tasks</span>
      </button>
      <button class="opt" type="button" onClick={() => void run("json")}>
        JSON<span class="end">with payloads</span>
      </button>
      <button
        class="opt"
        type="button"
        onClick={() => {
          const url = urlOf({ path: "/v1/codeq/admin/tasks", query });
          copyText(curlOf({ method: "GET", url, body: undefined }));
        }}
      >
        Copy as curl
      </button>
      <button class="opt" type="button" onClick={() => copyText(sdkCallOf(query))}>
        Copy as SDK call
      </button>
    </Menu>
  );
}

function sdkCallOf({ priority, ...query }: Readonly<Record<string, string>>): string {
  const filter = { ...query, ...(priority === undefined ? {} : { priority: Number(priority) }) };
  return `for await (const task of client.admin.tasks(${JSON.stringify(filter)})) console.log(task);`;
}

function taskCsv(tasks: readonly TaskRow[]): string {
  const header = [
    "id",
    "queue",
    "state",
    "priority",
    "attempts",
    "maxAttempts",
    "worker",
    "error",
    "createdAt",
    "endedAt",
  ];
  const rows = tasks.map((task) => [
    task.id,
    task.command,
    stateOf(task),
    task.priority ?? 0,
    task.attempts ?? 0,
    task.maxAttempts,
    task.workerId,
    task.error,
    task.createdAt,
    task.endedAt,
  ]);
  return csvOf(header, rows);
}

interface TableProps {
  readonly list: TaskList;
  readonly chosen: ReadonlySet<string>;
  readonly isAll: boolean;
  readonly onChoose: (ids: ReadonlySet<string>) => void;
}

function TaskRows(props: TableProps & { readonly isFiltered: boolean }): JSX.Element {
  const { list, isFiltered } = props;
  if (list.tasks.length > 0) return <TaskTable {...props} />;
  if (list.isLoading) return <Pending />;
  return (
    <Nothing title="No task matches" icon="tasks">
      <p>
        {isFiltered ? "Take a filter away, or look for something else." : "There are no tasks yet."}
      </p>
    </Nothing>
  );
}

function TaskTable({ list, chosen, isAll, onChoose }: TableProps): JSX.Element {
  const { tasks } = list;
  const columns = useStore(shownColumns);
  const view = useVirtualRows(tasks.length, rowPx, list.more);
  const isEvery = tasks.every(({ id }) => chosen.has(id));
  const width = columns.length + 5;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard.
    <div class="vt" ref={view.scroller} tabIndex={0} role="region" aria-label="Task list">
      <table class="cards tasks" id="task-list" aria-rowcount={tasks.length + 1}>
        <thead>
          <tr>
            <th>
              <input
                type="checkbox"
                aria-label="Select all rows that are loaded"
                checked={isEvery}
                onChange={() => onChoose(isEvery ? new Set() : new Set(tasks.map(({ id }) => id)))}
              />
            </th>
            <th>State</th>
            <th>Task</th>
            <th>Queue</th>
            {columns.map((name) => (
              <th key={name} class={isNumber(name) ? "num" : ""}>
                {columnTitles[name]}
              </th>
            ))}
            <th class="num">Changed</th>
          </tr>
        </thead>
        <tbody>
          <PadRow columns={width} px={view.before} />
          {tasks.slice(view.from, view.to).map((task, at) => (
            <TaskLine
              key={task.id}
              task={task}
              index={view.from + at}
              columns={columns}
              isChosen={isAll || chosen.has(task.id)}
              onToggle={() => {
                const next = new Set(chosen);
                if (!next.delete(task.id)) next.add(task.id);
                onChoose(next);
              }}
            />
          ))}
          <PadRow columns={width} px={view.after} />
        </tbody>
      </table>
    </div>
  );
}

function isNumber(name: Column): boolean {
  return name === "attempts" || name === "priority" || name === "created";
}

interface LineProps {
  readonly task: TaskRow;
  readonly index: number;
  readonly columns: readonly Column[];
  readonly isChosen: boolean;
  readonly onToggle: () => void;
}

function TaskLine({ task, index, columns, isChosen, onToggle }: LineProps): JSX.Element {
  return (
    <tr data-row="" data-chosen={isChosen ? "" : undefined} aria-rowindex={index + 2}>
      <td class="c-sel">
        <input
          type="checkbox"
          aria-label={`Select ${task.id}`}
          checked={isChosen}
          onChange={onToggle}
        />
      </td>
      <td class="c-state">
        <State name={stateOf(task)} />
      </td>
      <td class="c-id">
        <a class="mono" href={href(`/tasks/${task.id}`)} title={task.id}>
          {shortId(task.id)}
        </a>
      </td>
      <td class="c-q nowrap">
        <bdi>{task.command}</bdi>
      </td>
      {columns.map((name) => (
        <TaskCell key={name} name={name} task={task} />
      ))}
      <td class="c-when num faint">
        <Time at={task.updatedAt} />
      </td>
    </tr>
  );
}

function TaskCell({ name, task }: { readonly name: Column; readonly task: TaskRow }): JSX.Element {
  switch (name) {
    case "error":
      return (
        <td class="c-err err trunc" title={task.error?.slice(0, 500)}>
          {task.error === undefined ? null : <Given text={task.error} max={300} />}
        </td>
      );
    case "tags":
      return (
        <td class="gone">
          <span class="row">
            {task.tags?.map((tag) => (
              <span class="tag" key={tag}>
                <Given text={tag} max={64} />
              </span>
            ))}
          </span>
        </td>
      );
    case "attempts":
      return (
        <td class="num gone">
          {task.attempts ?? 0}/{task.maxAttempts}
        </td>
      );
    case "priority":
      return <td class="num gone">{task.priority ?? 0}</td>;
    case "worker":
      return (
        <td class="gone trunc worker">
          <Given text={task.workerId ?? ""} max={80} />
        </td>
      );
    case "created":
      return (
        <td class="num gone faint">
          <Time at={task.createdAt} />
        </td>
      );
  }
}

interface BulkProps {
  readonly selection: Selection;
  readonly total: number | undefined;
  /** Where all of them are, if the filter says so. */
  readonly place: string | undefined;
  readonly isAll: boolean;
  readonly onAll: () => void;
  readonly onClear: () => void;
}

function BulkBar({ selection, total, place, isAll, onAll, onClear }: BulkProps): JSX.Element {
  const size = isAll
    ? `All ${total === undefined ? "" : count(total)} matching`
    : count(selection.ids.length);
  return (
    <div class="bulk" role="toolbar" aria-label="Actions on selected tasks">
      <b>{size} selected</b>
      {isAll ? null : (
        <button class="btn sm ghost link" type="button" onClick={onAll}>
          Select all {total === undefined ? "" : count(total)} matching
        </button>
      )}
      <span class="sep wide-only" />
      <BulkActions selection={selection} place={place} />
      <button
        class="btn sm ghost icon"
        type="button"
        aria-label="Clear selection"
        onClick={onClear}
      >
        <Icon name="x" small />
      </button>
    </div>
  );
}

function BulkActions({ selection, place }: Pick<BulkProps, "selection" | "place">): JSX.Element {
  if (place === "dead") return <DeadActions selection={selection} />;
  const { ids, filter, shown } = selection;
  const action = place === "done" || place === "failed" ? "delete" : "cancel";
  return (
    <>
      {place === "ready" || place === "delayed" ? (
        <Act class="btn sm" onClick={() => askMoveMany(selection)}>
          <Icon name="move" small />
          Move…
        </Act>
      ) : null}
      <Act
        class="btn sm danger"
        onClick={() =>
          filter === undefined ? askEach(action, ids) : askBulkJob({ action, filter, shown })
        }
      >
        <Icon name={action === "delete" ? "trash" : "x"} small />
        {action === "delete" ? "Delete…" : "Cancel…"}
      </Act>
    </>
  );
}

function DeadActions({ selection }: Pick<BulkProps, "selection">): JSX.Element {
  return (
    <>
      <Act class="btn primary sm" onClick={() => askDeadLetters("replay", selection)}>
        <Icon name="replay" small />
        Replay… <Kbd>R</Kbd>
      </Act>
      <Act class="btn sm danger" onClick={() => askDeadLetters("delete", selection)}>
        <Icon name="trash" small />
        Delete…
      </Act>
    </>
  );
}
