/** Nodes and shards: who leads, how far this node is, what does not follow, and how to have others lead. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { bytes, count, duration, plural } from "../format.ts";
import { type ClusterState, type ReplicaState, useCluster, useHealth } from "../model/server.ts";
import { ActionDialog, Effects, openDialog } from "../overlays/dialog.tsx";
import { Badge, Given, Nothing, PageHead, Panel, Pending } from "../parts/basics.tsx";
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
          <Act icon="move" onClick={() => askHandOff(data, undefined)}>
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
  return (
    <Panel title={self === undefined ? "This server" : `Node ${self}`} id="node">
      <div class="panel-body">
        <dl class="facts">
          <dt>Storage</dt>
          <dd>{health?.storage ?? "…"}</dd>
          <dt>Free disk space</dt>
          <dd>
            {disk === undefined
              ? "the data is in memory"
              : `${bytes(disk.freeBytes)}; writes are refused below ${bytes(disk.minFreeBytes)}`}
          </dd>
          <dt>Durability</dt>
          <dd>{who.durability}</dd>
          <dt>Shards</dt>
          <dd>{count(who.shards)}</dd>
          <dt>Version</dt>
          <dd>{who.version}</dd>
        </dl>
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
      <Act class="sm" aria-label={`Hand off shard ${name}`} onClick={() => askHandOff(state, name)}>
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

/**
 * Has another node lead, before a machine is stopped or to put leaders where they belong. Without a shard, of all
 * shards.
 */
function askHandOff(state: ClusterState, shard: string | undefined): void {
  openDialog(() => <HandOffDialog state={state} shard={shard} />);
}

interface HandOffProps {
  readonly state: ClusterState;
  readonly shard: string | undefined;
}

function HandOffDialog({ state, shard }: HandOffProps): JSX.Element {
  const wanted = shardsOf(state).filter(({ name }) => shard === undefined || name === shard);
  const leaders = [...new Set(wanted.flatMap(({ leader }) => leader ?? []))];
  const [leader] = leaders.length === 1 ? leaders : [];
  const others = state.nodes.map(({ id }) => id).filter((id) => id !== leader);
  const [to, setTo] = useState("");
  const body = { ...(shard === undefined ? {} : { shard }), ...(to === "" ? {} : { to }) };
  const call = { method: "POST", path: "/v1/codeq/admin/cluster/handoff", body } as const;
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
        options={[["", "Any other"], ...others.map((id) => [id, id] as const)]}
        value={to}
        onChange={setTo}
      />
    </ActionDialog>
  );
}
