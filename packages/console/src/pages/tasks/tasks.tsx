/** Finds tasks, and acts on one, several or all that match. */
import type { JSX } from "preact";
import { useLayoutEffect, useMemo, useState } from "preact/hooks";
import { curlOf, tenant } from "../../api.ts";
import { count, plural } from "../../format.ts";
import { useKeys, useRowKeys } from "../../keys.ts";
import { csvOf, download } from "../../model/download.ts";
import { useKnownQueues } from "../../model/queues.ts";
import { newsMax, type TaskList, useTaskList } from "../../model/task-list.ts";
import { allTasks, attemptNumber, exportMax, listCall, type TaskRow } from "../../model/tasks.ts";
import { showApiCalls } from "../../overlays/page-info.tsx";
import {
  copyText,
  Given,
  Hints,
  Kbd,
  Nothing,
  Pending,
  State,
  TaskLink,
  Time,
  WorkerName,
} from "../../parts/basics.tsx";
import { Act, Button, Menu } from "../../parts/buttons.tsx";
import { CheckBox } from "../../parts/fields.tsx";
import { FilterBar } from "../../parts/filter-bar.tsx";
import { Icon } from "../../parts/icon.tsx";
import { type Column, LongTable } from "../../parts/tables.tsx";
import { href, navigate, useLocation } from "../../router.ts";
import { mayAct } from "../../session.ts";
import { keptStore, useStore } from "../../store.ts";
import { filterQuery, parseFilter, type TaskQuery } from "../../task-filter.ts";
import { tell, tellProblem } from "../../toasts.tsx";
import { askBulkJob, askEach, askMoveMany, type Selection } from "../bulk-jobs.tsx";
import { askFailures } from "./task-actions.tsx";

const rowPx = 37;

interface View {
  readonly title: string;
  readonly filter: string;
}

const builtIn: readonly View[] = [
  { title: "All tasks", filter: "" },
  { title: "Failures", filter: "state:failure" },
  { title: "Dead letters", filter: "state:dead" },
  { title: "Leased", filter: "state:leased" },
  { title: "Delayed", filter: "state:delayed" },
  { title: "Done in 1 h", filter: "state:done ended:1h" },
];

const savedViews = keptStore<readonly View[]>("views", []);

const optional = {
  error: {
    head: "Last error",
    class: "c-err err trunc",
    show: ({ error = "" }) => (
      <span title={error.slice(0, 500)}>
        <Given text={error} max={300} />
      </span>
    ),
  },
  tags: {
    head: "Tags",
    class: "gone",
    show: ({ tags = [] }) => (
      <span class="row">
        {tags.map((tag) => (
          <span class="tag" key={tag}>
            <Given text={tag} max={64} />
          </span>
        ))}
      </span>
    ),
  },
  attempts: {
    head: "Attempts",
    headClass: "num",
    class: "num gone",
    show: (task) => `${attemptNumber(task)}/${task.maxAttempts}`,
  },
  priority: {
    head: "Priority",
    headClass: "num",
    class: "num gone",
    show: ({ priority = 0 }) => priority,
  },
  worker: {
    head: "Worker",
    class: "gone trunc worker",
    show: ({ workerId }) => (workerId === undefined ? null : <WorkerName id={workerId} />),
  },
  created: {
    head: "Created",
    headClass: "num",
    class: "num gone faint",
    show: ({ createdAt }) => <Time at={createdAt} />,
  },
} as const satisfies Readonly<Record<string, Column<TaskRow>>>;
type Optional = keyof typeof optional;
const optionalNames = Object.keys(optional) as Optional[];
const shownColumns = keptStore<readonly Optional[]>("columns", [
  "error",
  "attempts",
  "priority",
  "worker",
]);

export function Tasks(): JSX.Element {
  const { query } = useLocation();
  const of = useStore(tenant);
  const text = query.get("q") ?? "";
  const tokens = useMemo(() => parseFilter(text), [text]);
  // Time spans count from the moment when the filter was set, so that pages fit together.
  const filter = useMemo(() => filterQuery(tokens, Date.now()), [tokens]);
  const { data: queues = [] } = useKnownQueues();
  const list = useTaskList(filter.problem === undefined ? filter.query : undefined, of);
  const ids = list.tasks.map(({ id }) => id);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [isAll, setAll] = useState(false);
  const choose = (next: ReadonlySet<string>): void => {
    setChosen(next);
    setAll(false);
  };
  const toggle = (id: string): void => {
    const next = new Set(isAll ? ids : chosen);
    if (!next.delete(id)) next.add(id);
    choose(next);
  };
  useLayoutEffect(() => choose(new Set()), [text, of]);
  const setFilter = (next: string): void =>
    navigate(href("/tasks", { q: next }), { replace: true });
  const selection: Selection = {
    ids: [...chosen],
    filter: isAll ? filter.query : undefined,
    shown: isAll ? text || "all tasks" : "",
  };
  const { cursor, keys } = useRowKeys(ids, {
    open: (id) => navigate(href(`/tasks/${id}`)),
    select: toggle,
  });
  useKeys({
    ...keys,
    "/": () => document.getElementById("task-filter")?.focus(),
    r: () => {
      if (chosen.size > 0 && mayAct() && isFailurePlace(filter.query.place))
        askFailures("replay", selection);
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
      <div class="row wrap">
        <Matching list={list} />
        {list.news === 0 ? null : (
          <Button class="sm newpill" icon="up" onClick={list.reload}>
            {list.news >= newsMax ? `${newsMax}+` : count(list.news)} new
          </Button>
        )}
        <div class="right row">
          <ColumnMenu />
          <ExportMenu query={filter.query} />
          <Button class="sm" icon="api" onClick={showApiCalls}>
            API call
          </Button>
        </div>
      </div>
      <section class="panel" aria-label="Tasks">
        <TaskRows
          list={list}
          isFiltered={text !== ""}
          cursor={cursor}
          chosen={chosen}
          isAll={isAll}
          onChoose={choose}
          onToggle={toggle}
        />
        <div class="panel-foot sub row wrap">
          <span>
            {plural(ids.length, "row")} loaded
            {list.next === undefined ? "" : ", more when you scroll"}
          </span>
          <span class="grow" />
          <Hints of={["J K move", "X select", "Enter open", "/ filter"]} />
        </div>
      </section>
      {chosen.size === 0 ? null : (
        <BulkBar
          selection={selection}
          total={list.total}
          place={filter.query.place}
          isAll={isAll}
          onAll={() => setAll(true)}
          onClear={() => choose(new Set())}
        />
      )}
    </>
  );
}

function Matching({ list }: { readonly list: TaskList }): JSX.Element {
  const { total, tasks, next, scanned } = list;
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
      <b>{next === undefined ? count(tasks.length) : `at least ${count(tasks.length)}`}</b> matching{" "}
      <span class="faint wide-only">{count(scanned)} tasks looked at. Newest first.</span>
      {next !== undefined && tasks.length === 0 ? (
        <Button class="sm" onClick={list.more}>
          Look further
        </Button>
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
  const show = (name: Optional, isOn: boolean): void =>
    shownColumns.set(optionalNames.filter((each) => (each === name ? isOn : shown.includes(each))));
  return (
    <Menu label="Columns" icon="columns">
      {optionalNames.map((name) => (
        <CheckBox
          key={name}
          class="opt"
          isOn={shown.includes(name)}
          onChange={(isOn) => show(name, isOn)}
        >
          {optional[name].head}
        </CheckBox>
      ))}
    </Menu>
  );
}

function ExportMenu({ query }: { readonly query: TaskQuery }): JSX.Element {
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
  const curl = curlOf(listCall(query, {}));
  return (
    <Menu label="Export" icon="download">
      <button class="opt" type="button" onClick={() => void run("csv")}>
        CSV<span class="end sub">at most {count(exportMax)} tasks</span>
      </button>
      <button class="opt" type="button" onClick={() => void run("json")}>
        JSON<span class="end sub">with payloads</span>
      </button>
      <button class="opt" type="button" onClick={() => copyText(curl)}>
        Copy as curl
      </button>
      <button class="opt" type="button" onClick={() => copyText(sdkCallOf(query))}>
        Copy as SDK call
      </button>
    </Menu>
  );
}

function sdkCallOf({ priority, ...query }: TaskQuery): string {
  const filter = { ...query, ...(priority === undefined ? {} : { priority: Number(priority) }) };
  return `for await (const task of client.admin.tasks(${JSON.stringify(filter)})) console.log(task);`;
}

const csvColumns: Readonly<Record<string, (task: TaskRow) => string | number | undefined>> = {
  id: ({ id }) => id,
  queue: ({ command }) => command,
  state: ({ place }) => place,
  priority: ({ priority }) => priority ?? 0,
  attempts: attemptNumber,
  maxAttempts: ({ maxAttempts }) => maxAttempts,
  worker: ({ workerId }) => workerId,
  error: ({ error }) => error,
  createdAt: ({ createdAt }) => createdAt,
  endedAt: ({ endedAt }) => endedAt,
};

function taskCsv(tasks: readonly TaskRow[]): string {
  const cells = Object.values(csvColumns);
  const rows = tasks.map((task) => cells.map((cell) => cell(task)));
  return csvOf(Object.keys(csvColumns), rows);
}

interface TableProps {
  readonly list: TaskList;
  readonly cursor: string | undefined;
  readonly chosen: ReadonlySet<string>;
  readonly isAll: boolean;
  readonly onChoose: (ids: ReadonlySet<string>) => void;
  readonly onToggle: (id: string) => void;
}

function TaskRows(props: TableProps & { readonly isFiltered: boolean }): JSX.Element {
  if (props.list.tasks.length > 0) return <TaskTable {...props} />;
  if (props.list.isLoading) return <Pending />;
  const hint = "Take a filter away, or look for something else.";
  return (
    <Nothing title="No task matches" icon="tasks">
      <p>{props.isFiltered ? hint : "There are no tasks yet."}</p>
    </Nothing>
  );
}

function TaskTable(props: TableProps): JSX.Element {
  const { list, chosen, isAll, onChoose, onToggle } = props;
  const { tasks } = list;
  const wanted = useStore(shownColumns);
  const shown = optionalNames.filter((name) => wanted.includes(name));
  const isEvery = tasks.every(({ id }) => chosen.has(id));
  const isChosen = ({ id }: TaskRow): boolean => isAll || chosen.has(id);
  const select: Column<TaskRow> = {
    class: "c-sel",
    head: (
      <input
        type="checkbox"
        aria-label="Select all rows that are loaded"
        checked={isEvery}
        onChange={() => onChoose(isEvery ? new Set() : new Set(tasks.map(({ id }) => id)))}
      />
    ),
    show: (task) => (
      <input
        type="checkbox"
        aria-label={`Select ${task.id}`}
        checked={isChosen(task)}
        onChange={() => onToggle(task.id)}
      />
    ),
  };
  return (
    <LongTable
      label="Task list"
      class="tasks"
      rows={tasks}
      id={({ id }) => id}
      rowPx={rowPx}
      cursor={props.cursor}
      isChosen={isChosen}
      onEnd={list.more}
      columns={[select, ...first, ...shown.map((name) => optional[name]), changed]}
    />
  );
}

const first: readonly Column<TaskRow>[] = [
  { head: "State", class: "c-state", show: ({ place }) => <State name={place} /> },
  { head: "Task", class: "c-id", show: ({ id }) => <TaskLink id={id} /> },
  {
    head: "Queue",
    class: "c-q nowrap",
    show: ({ command }) => (
      <bdi class="short" title={command}>
        {command}
      </bdi>
    ),
  },
];
const changed: Column<TaskRow> = {
  head: "Changed",
  headClass: "num",
  class: "c-when num faint",
  show: ({ updatedAt }) => <Time at={updatedAt} />,
};

interface BulkProps {
  readonly selection: Selection;
  readonly total: number | undefined;
  /** The place in the filter, if it has one. */
  readonly place: string | undefined;
  readonly isAll: boolean;
  readonly onAll: () => void;
  readonly onClear: () => void;
}

function BulkBar({ selection, total, place, isAll, onAll, onClear }: BulkProps): JSX.Element {
  const all = total === undefined ? "" : count(total);
  return (
    <div class="bulk row wrap float" role="toolbar" aria-label="Actions on selected tasks">
      <b>{isAll ? `All ${all} matching` : count(selection.ids.length)} selected</b>
      {isAll ? null : (
        <Button class="sm ghost link" onClick={onAll}>
          Select all {all} matching
        </Button>
      )}
      <span class="sep wide-only" />
      <BulkActions selection={selection} place={place} />
      <Button class="sm ghost icon" icon="x" aria-label="Clear selection" onClick={onClear} />
    </div>
  );
}

function BulkActions({ selection, place }: Pick<BulkProps, "selection" | "place">): JSX.Element {
  if (isFailurePlace(place)) return <FailureActions selection={selection} />;
  const { ids, filter, shown } = selection;
  const action = place === "done" || place === "cancelled" ? "delete" : "cancel";
  const run = (): void =>
    filter === undefined ? askEach(action, ids) : askBulkJob(action, { filter, shown });
  return (
    <>
      {place === "ready" || place === "delayed" ? (
        <Act class="sm" icon="move" onClick={() => askMoveMany(selection)}>
          Move…
        </Act>
      ) : null}
      <Act class="sm danger" icon={action === "delete" ? "trash" : "x"} onClick={run}>
        {action === "delete" ? "Delete…" : "Cancel…"}
      </Act>
    </>
  );
}

function isFailurePlace(place: string | undefined): boolean {
  return place === "failure" || place === "dead" || place === "failed";
}

function FailureActions({ selection }: Pick<BulkProps, "selection">): JSX.Element {
  return (
    <>
      <Act class="primary sm" icon="replay" onClick={() => askFailures("replay", selection)}>
        Replay… <Kbd>R</Kbd>
      </Act>
      <Act class="sm danger" icon="trash" onClick={() => askFailures("delete", selection)}>
        Delete…
      </Act>
    </>
  );
}
