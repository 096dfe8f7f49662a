/** Has another node lead: before a machine is stopped, or to put leaders where they belong. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { plural } from "../format.ts";
import type { ClusterState } from "../model/server.ts";
import { ActionDialog, openDialog } from "../overlays/dialog.tsx";
import { Choices } from "../parts/basics.tsx";
import { Icon } from "../parts/icon.tsx";
import { sendCall } from "../send-call.ts";

/** Without a shard, all of them. */
export function askHandOff(state: ClusterState, shard: string | undefined): void {
  openDialog(() => <HandOffDialog state={state} shard={shard} />);
}

interface HandOffProps {
  readonly state: ClusterState;
  readonly shard: string | undefined;
}

function HandOffDialog({ state, shard }: HandOffProps): JSX.Element {
  const leaders = leadersOf(state, shard);
  const [leader] = leaders.length === 1 ? leaders : [];
  const others = state.nodes.map(({ id }) => id).filter((id) => id !== leader);
  const [to, setTo] = useState("");
  const body = { ...(shard === undefined ? {} : { shard }), ...(to === "" ? {} : { to }) };
  const call = { method: "POST", path: "/v1/codeq/admin/cluster/handoff", body } as const;
  const what = shard === undefined ? "all shards" : `shard ${shard}`;
  return (
    <ActionDialog
      title={`Hand off ${what}?`}
      about={`${leaders.join(", ") || "No node"} ${leaders.length > 1 ? "lead" : "leads"} now.`}
      button={`Hand off ${what}`}
      icon={<Icon name="move" />}
      call={call}
      run={() => sendCall(call, `Handed off ${what}`, "cluster")}
    >
      <ul class="checks">
        <li>
          <Icon name="queues" />
          <span>
            {shard === "control"
              ? "API keys, audit records, subscriptions and bulk jobs cannot be changed for a moment."
              : `Requests to ${shard === undefined ? plural(state.shards.length, "shard") : "the shard"} fail for a moment. The client library retries them.`}
          </span>
        </li>
        <li>
          <Icon name="leased" />
          <span>Tasks, leases and running workers stay as they are.</span>
        </li>
      </ul>
      <Choices
        label="Node that leads next"
        options={[["", "Any other"], ...others.map((id) => [id, id] as const)]}
        value={to}
        onChange={setTo}
      />
    </ActionDialog>
  );
}

function leadersOf({ shards, control }: ClusterState, shard: string | undefined): string[] {
  const all = [...shards.map((each) => ({ ...each, name: String(each.shard) }))];
  const named = [...all, ...(control === undefined ? [] : [{ ...control, name: "control" }])];
  const wanted = named.filter(({ name }) => shard === undefined || name === shard);
  return [...new Set(wanted.flatMap(({ leader }) => (leader === undefined ? [] : [leader])))];
}
