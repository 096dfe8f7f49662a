/** Does something to all tasks that a filter finds, as a bulk job of the server. */
import type { JSX } from "preact";
import { ask } from "../api.ts";
import { count, plural } from "../format.ts";
import { jobsPath } from "../model/jobs.ts";
import { ActionDialog, openDialog } from "../overlays/dialog.tsx";
import { Icon } from "../parts/icon.tsx";
import { invalidate, useQuery } from "../query.ts";
import { href, navigate } from "../router.ts";
import { tell } from "../toasts.tsx";

export type BulkAction = "cancel" | "delete";

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

function BulkJobDialog({ action, filter, shown }: BulkJobProps): JSX.Element {
  const { verb, what, about } = words[action];
  const { priority, ...rest } = filter;
  const given = { ...rest, ...(priority === undefined ? {} : { priority: Number(priority) }) };
  const body = { action, ...given, ...(Object.keys(given).length === 0 ? { all: true } : {}) };
  const dryRun = useQuery(
    `bulk:${JSON.stringify(body)}`,
    () =>
      ask<{ matched: number; hasMore: boolean }>({
        method: "POST",
        path: jobsPath,
        body: { ...body, dryRun: true },
      }),
    { everyMs: 0 },
  );
  const matched = dryRun.data?.matched ?? 0;
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
      isReady={dryRun.data !== undefined && matched > 0}
      run={async () => {
        await ask(call);
        tell(`The bulk job has started`);
        navigate(href("/jobs"));
        invalidate();
      }}
    >
      <div class="blast">
        <div class="big">
          <b>{count(matched)}</b>
          <span>{what}</span>
          <span class="faint">
            {dryRun.data === undefined ? "counting" : dryRun.data.hasMore ? "at least" : "dry run"}
          </span>
        </div>
      </div>
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
