/** Nodes and shards: who leads, how far this node is, what does not follow, and how to have others lead. */
import type { JSX } from "preact";
import { bytes, count, duration, plural } from "../format.ts";
import { type ClusterState, type ReplicaState, useCluster, useHealth } from "../model/server.ts";
import { Act } from "../parts/act.tsx";
import { Given, Nothing, Panel, Pending } from "../parts/basics.tsx";
import { CardTable, num } from "../parts/card-table.tsx";
import { Icon } from "../parts/icon.tsx";
import { type Session, session } from "../session.ts";
import { useStore } from "../store.ts";
import { askHandOff } from "./hand-off.tsx";

export function Cluster(): JSX.Element {
  const { data, error } = useCluster();
  if (data === undefined) return <Pending error={error} />;
  return (
    <>
      <div class="page-head">
        <div>
          <h1>Cluster</h1>
          <p>
            {data.enabled
              ? `${plural(data.nodes.length, "node")}, ${plural(data.shards.length, "shard")}, as ${data.self === undefined ? "this node" : `node ${data.self}`} sees them`
              : "This server runs alone."}
          </p>
        </div>
        <HandOffAll state={data} />
      </div>
      {data.enabled ? <Shards state={data} /> : null}
      <ThisNode state={data} />
    </>
  );
}

function mayHandOff({ enabled, nodes }: ClusterState): boolean {
  return enabled && nodes.length > 1 && session.get()?.role === "operator";
}

function HandOffAll({ state }: { readonly state: ClusterState }): JSX.Element | null {
  if (!mayHandOff(state)) return null;
  return (
    <div class="acts">
      <Act class="btn" onClick={() => askHandOff(state, undefined)}>
        <Icon name="move" />
        Hand off all shards…
      </Act>
    </div>
  );
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

function Shards({ state }: { readonly state: ClusterState }): JSX.Element {
  if (state.shards.length === 0) return <Nothing icon="cluster" title="No shards are known yet" />;
  const { control } = state;
  return (
    <section class="panel" aria-label="Shards">
      <CardTable
        heads={[
          "Shard",
          "Leader",
          "This node",
          num("Epoch"),
          num("Read up to"),
          num("Applied"),
          num("Leader silent for"),
        ]}
        hasActions
      >
        {state.shards.map((shard) => (
          <ShardRow key={shard.shard} name={String(shard.shard)} replica={shard} state={state} />
        ))}
        {control === undefined ? null : <ShardRow name="control" replica={control} state={state} />}
      </CardTable>
    </section>
  );
}

interface ShardRowProps {
  /** Its number, or `control`: the log of API keys, audit records, subscriptions and bulk jobs. */
  readonly name: string;
  readonly replica: ReplicaState;
  readonly state: ClusterState;
}

function ShardRow({ name, replica, state }: ShardRowProps): JSX.Element {
  return (
    <tr data-row="">
      <td class="full name">
        <b>{name}</b>
        {replica.problem === undefined ? null : (
          <span class="sub bad">
            <Given text={replica.problem} max={200} />
          </span>
        )}
      </td>
      <td data-l="Leader">
        {replica.leader === undefined ? (
          <span class="st st-dead">
            <Icon name="warn" small />
            none
          </span>
        ) : (
          <bdi>{replica.leader}</bdi>
        )}
      </td>
      <td data-l="This node">{replica.role}</td>
      <td class="num" data-l="Epoch">
        {count(replica.epoch)}
      </td>
      <td class="num" data-l="Read up to">
        {count(replica.slot)}
      </td>
      <td class="num" data-l="Applied">
        {count(replica.index)}
      </td>
      <td class="num" data-l="Leader silent for">
        {duration(replica.silentMs)}
      </td>
      <td class="last">
        {mayHandOff(state) && replica.leader !== undefined ? (
          <Act
            class="btn sm"
            aria-label={`Hand off shard ${name}`}
            onClick={() => askHandOff(state, name)}
          >
            Hand off…
          </Act>
        ) : null}
      </td>
    </tr>
  );
}
