/** Does something to all tasks that a filter finds, as a bulk job of the server. */
import type { JSX } from "preact";
import { ask, type Request } from "../api.ts";
import { count, plural } from "../format.ts";
import { jobsPath } from "../model/jobs.ts";
import { ActionDialog, openDialog } from "../overlays/dialog.tsx";
import { Icon } from "../parts/icon.tsx";
import { useQuery } from "../query.ts";
import { href, navigate } from "../router.ts";
import { sendCall } from "../send-call.ts";

type BulkAction = "cancel" | "delete";

interface BulkJobProps {
  readonly action: BulkAction;
  readonly filter: Readonly<Record<string, string>>;
  /** What the filter looks like on the page. */
  readonly shown: string;
}

export function askBulkJob(props: BulkJobProps): void {
  openDialog(() => <BulkJobDialog {...props} />);
}

const words = {
  cancel: {
    verb: "Cancel",
    what: "tasks that wait or run",
    about: "Waiting tasks end as failed with CANCELLED. Workers are told to stop running ones.",
  },
  delete: {
    verb: "Delete",
    what: "tasks that have ended",
    about: "Payloads, results and errors are removed for good.",
  },
} as const;

/** What a job is given to find the tasks that a filter of the page finds. */
export function jobFilter(filter: Readonly<Record<string, string>>): object {
  const { priority, ...rest } = filter;
  const given = { ...rest, ...(priority === undefined ? {} : { priority: Number(priority) }) };
  return Object.keys(given).length === 0 ? { all: true } : given;
}

interface DryRun {
  readonly matched: number;
  readonly hasMore: boolean;
}

/** How many tasks a job would find. */
export function useDryRun(body: object): { data: DryRun | undefined; matched: number } {
  const load = (): Promise<DryRun> =>
    ask({ method: "POST", path: jobsPath, body: { ...body, dryRun: true } });
  const { data } = useQuery(`bulk:${JSON.stringify(body)}`, load, { everyMs: 0 });
  return { data, matched: data?.matched ?? 0 };
}

/** How many tasks will be touched. */
export function Blast({
  dryRun,
  what,
}: {
  readonly dryRun: DryRun | undefined;
  readonly what: string;
}): JSX.Element {
  return (
    <div class="blast">
      <div class="big">
        <b>{count(dryRun?.matched ?? 0)}</b>
        <span>{what}</span>
        <span class="faint">
          {dryRun === undefined ? "counting" : dryRun.hasMore ? "at least" : "dry run"}
        </span>
      </div>
    </div>
  );
}

export async function startJob(call: Request): Promise<void> {
  await sendCall(call, "The bulk job has started");
  navigate(href("/jobs"));
}

function BulkJobDialog({ action, filter, shown }: BulkJobProps): JSX.Element {
  const { verb, what, about } = words[action];
  const body = { action, ...jobFilter(filter) };
  const { data: dryRun, matched } = useDryRun(body);
  const call = { method: "POST", path: jobsPath, body } as const;
  return (
    <ActionDialog
      title={`${verb} all that match?`}
      about={`Filter: ${shown}`}
      button={`${verb} ${plural(matched, "task")}`}
      icon={<Icon name={action === "delete" ? "trash" : "x"} />}
      isFinal
      confirm={filter["command"] ?? String(matched)}
      call={call}
      isReady={matched > 0}
      run={() => startJob(call)}
    >
      <Blast dryRun={dryRun} what={what} />
      <p class="note">
        <Icon name="warn" />
        <span>
          {about} The server does it step by step; the job can be paused and aborted, and tasks that
          come later are left alone.
        </span>
      </p>
    </ActionDialog>
  );
}
