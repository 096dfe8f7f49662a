/** Nodes and shards: who leads, how far this node is, what does not follow. */
import type { JSX } from "preact";
import { ask } from "../api.ts";
import { count, duration, plural } from "../format.ts";
import { useHealth } from "../model/server.ts";
import { Given, Nothing, Panel, Pending } from "../parts/basics.tsx";
import { Icon } from "../parts/icon.tsx";
import { useQuery } from "../query.ts";
import { type Session, session } from "../session.ts";
import { useStore } from "../store.ts";

interface ShardState {
  readonly shard: number;
  readonly role: string;
  readonly epoch: number;
  readonly slot: number;
  readonly index: number;
  readonly silentMs: number;
  readonly leader?: string;
  readonly problem?: string;
}

interface ClusterState {
  readonly enabled: boolean;
  readonly self?: string;
  readonly nodes: readonly { readonly id: string; readonly address: string }[];
  readonly shards: readonly ShardState[];
}

export function Cluster(): JSX.Element {
  const load = (): Promise<ClusterState> => ask({ path: "/v1/codeq/cluster" });
  const { data, error } = useQuery("cluster", load, { everyMs: 2000 });
  if (data === undefined) return <Pending error={error} />;
  return (
    <>
      <div class="page-head">
        <div>
          <h1>Cluster</h1>
          <p>
            {data.enabled
              ? `${plural(data.nodes.length, "node")}, ${plural(data.shards.length, "shard")}, as ${data.self ?? "this node"} sees them`
              : "This server runs alone."}
          </p>
        </div>
      </div>
      {data.enabled ? <Shards state={data} /> : <Alone />}
    </>
  );
}

function Alone(): JSX.Element {
  const { data: health } = useHealth();
  const who = useStore(session) as Session;
  return (
    <Panel title="This server" id="alone">
      <div class="panel-body">
        <dl class="facts">
          <dt>Storage</dt>
          <dd>{health?.storage ?? "…"}</dd>
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
  return (
    <section class="panel" aria-label="Shards">
      <div class="table-wrap">
        <table class="cards">
          <thead>
            <tr>
              <th>Shard</th>
              <th>Leader</th>
              <th>This node</th>
              <th class="num">Epoch</th>
              <th class="num">Read up to</th>
              <th class="num">Applied</th>
              <th class="num">Leader silent for</th>
            </tr>
          </thead>
          <tbody>
            {state.shards.map((shard) => (
              <tr key={shard.shard} data-row="">
                <td class="full name">
                  <b>{shard.shard}</b>
                  {shard.problem === undefined ? null : (
                    <span class="sub bad">
                      <Given text={shard.problem} max={200} />
                    </span>
                  )}
                </td>
                <td data-l="Leader">
                  {shard.leader === undefined ? (
                    <span class="st st-dead">
                      <Icon name="warn" small />
                      none
                    </span>
                  ) : (
                    <bdi>{shard.leader}</bdi>
                  )}
                </td>
                <td data-l="This node">{shard.role}</td>
                <td class="num" data-l="Epoch">
                  {count(shard.epoch)}
                </td>
                <td class="num" data-l="Read up to">
                  {count(shard.slot)}
                </td>
                <td class="num" data-l="Applied">
                  {count(shard.index)}
                </td>
                <td class="num" data-l="Leader silent for">
                  {duration(shard.silentMs)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
