/** The shard's end of a connection when only one router uses the shard. */
import { ShardHost, type ShardHostParts } from "./shard-host.ts";

export function hostAlone(parts: ShardHostParts): Promise<ShardHost> {
  const { broker } = parts;
  return ShardHost.open(parts, (host) => {
    broker.onMoved = (queue) => host.moved(queue);
    broker.webhooks.onEndpoint = (change) => host.endpointChanged(change);
    broker.onRecovered.add(() => host.recovered());
  });
}
