/** Nodes and shards: leaders, progress of this node, problems, and hand-off to another leader. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { callOf } from "../api.ts";
import { bytes, count, duration, plural } from "../format.ts";
import { type ClusterState, type ReplicaState, useCluster, useHealth } from "../model/server.ts";
import { ActionDialog, Effects, openDialog } from "../overlays/dialog.tsx";
import { Badge, Facts, Given, Nothing, PageHead, Panel, Pending } from "../parts/basics.tsx";
import { Act } from "../parts/buttons.tsx";
import { Choices } from "../parts/fields.tsx";
import { actions, CardTable, type Column, column, num, title } from "../parts/tables.tsx";
import { type Session, session } from "../session.ts";
import { useStore } from "../store.ts";
import { sendCall } from "../toasts.tsx";

export function Cluster(): JSX.Element {
  const { data, error } = useCluster();
  if (data === undefined) return <Pending error={error} />;
  const { enabled, nodes, shards, self } = data;
  const by = self === undefined ? "this node" : `node ${self}`;
  const about = enabled
    ? `${plural(nodes.length, "node")}, ${plural(shards.length, "shard")}, as ${by} sees them`
    : "This server runs alone.";
  return (
    <>
      <PageHead title="Cluster" about={about}>
        {mayHandOff(data) ? (
          <Act icon="move" onClick={() => openDialog(<HandOffDialog state={data} />)}>
            Hand off all shards…
          </Act>
        ) : undefined}
      </PageHead>
      {enabled ? <Shards state={data} /> : null}
      <ThisNode state={data} />
    </>
  );
}

function mayHandOff({ enabled, nodes }: ClusterState): boolean {
  return enabled && nodes.length > 1 && session.get()?.role === "operator";
}

function ThisNode({ state }: { readonly state: ClusterState }): JSX.Element {
  const { data: health } = useHealth();
  const who = useStore(session) as Session;
  const { disk, self } = state;
  const free =
    disk === undefined
      ? "the data is in memory"
      : `${bytes(disk.freeBytes)}; writes are refused below ${bytes(disk.minFreeBytes)}`;
  return (
    <Panel title={self === undefined ? "This server" : `Node ${self}`} id="node">
      <div class="panel-body">
        <Facts
          of={[
            ["Storage", health?.storage ?? "…"],
            ["Free disk space", free],
            ["Durability", who.durability],
            ["Shards", count(who.shards)],
            ["Version", who.version],
          ]}
        />
      </div>
    </Panel>
  );
}

interface Shard extends ReplicaState {
  /** Its number, or `control`: the log of API keys, audit records, subscriptions and bulk jobs. */
  readonly name: string;
}

function shardsOf({ shards, control }: ClusterState): Shard[] {
  const numbered = shards.map((each) => ({ ...each, name: String(each.shard) }));
  return control === undefined ? numbered : [...numbered, { ...control, name: "control" }];
}

function Shards({ state }: { readonly state: ClusterState }): JSX.Element {
  if (state.shards.length === 0) return <Nothing icon="cluster" title="No shards are known yet" />;
  const handOff = ({ name, leader }: Shard): JSX.Element | null =>
    mayHandOff(state) && leader !== undefined ? (
      <Act
        class="sm"
        aria-label={`Hand off shard ${name}`}
        onClick={() => openDialog(<HandOffDialog state={state} shard={name} />)}
      >
        Hand off…
      </Act>
    ) : null;
  return (
    <section class="panel" aria-label="Shards">
      <CardTable
        rows={shardsOf(state)}
        id={({ name }) => name}
        columns={[...columns, actions(handOff)]}
      />
    </section>
  );
}

const columns: readonly Column<Shard>[] = [
  title("Shard", ({ name, problem }) => (
    <>
      <b>{name}</b>
      {problem === undefined ? null : (
        <span class="sub bad">
          <Given text={problem} max={200} />
        </span>
      )}
    </>
  )),
  column("Leader", ({ leader }) =>
    leader === undefined ? (
      <Badge tone="dead" icon="warn">
        none
      </Badge>
    ) : (
      <bdi>{leader}</bdi>
    ),
  ),
  column("This node", ({ role }) => role),
  num("Epoch", ({ epoch }) => count(epoch)),
  num("Read up to", ({ slot }) => count(slot)),
  num("Applied", ({ index }) => count(index)),
  num("Leader silent for", ({ silentMs }) => duration(silentMs)),
];

/** Makes another node the leader of a shard, or of all shards, for example before maintenance. */
function HandOffDialog({ state, shard }: { state: ClusterState; shard?: string }): JSX.Element {
  const wanted = shardsOf(state).filter(({ name }) => shard === undefined || name === shard);
  const leaders = [...new Set(wanted.flatMap(({ leader }) => leader ?? []))];
  const [leader] = leaders.length === 1 ? leaders : [];
  const others = state.nodes.map(({ id }) => id).filter((id) => id !== leader);
  const [to, setTo] = useState("");
  const body = { ...(shard === undefined ? {} : { shard }), ...(to === "" ? {} : { to }) };
  const call = callOf("POST /admin/cluster/handoff", { body });
  const what = shard === undefined ? "all shards" : `shard ${shard}`;
  const requests =
    shard === "control"
      ? "API keys, audit records, subscriptions and bulk jobs cannot be changed for a moment."
      : `Requests to ${shard === undefined ? plural(state.shards.length, "shard") : "the shard"} fail for a moment. The client library retries them.`;
  return (
    <ActionDialog
      title={`Hand off ${what}?`}
      about={`${leaders.join(", ") || "No node"} ${leaders.length > 1 ? "lead" : "leads"} now.`}
      button={`Hand off ${what}`}
      icon="move"
      call={call}
      run={() => sendCall(call, `Handed off ${what}`, "cluster")}
    >
      <Effects
        of={[
          ["queues", requests],
          ["leased", "Tasks, leases and running workers stay as they are."],
        ]}
      />
      <Choices
        label="Node that leads next"
        options={{ "": "Any other", ...Object.fromEntries(others.map((id) => [id, id])) }}
        value={to}
        onChange={setTo}
      />
    </ActionDialog>
  );
}
