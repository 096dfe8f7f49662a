/** The answer of the pages for probes, which need no token. */
import { list, object, text, whole } from "../../contract/shape.ts";

const isOptional = { isOptional: true } as const;

export const Health = object(
  {
    status: text(),
    storage: text(),
    durability: text(),
    shards: list(
      object({ shard: whole(), state: text(), error: text("", isOptional) }),
      "The state of each shard, if there are several.",
      isOptional,
    ),
    instance: text("", isOptional),
    streams: object(
      { worker: whole("", isOptional), producer: whole("", isOptional) },
      { about: "The ports of the gRPC streams.", isOptional: true },
    ),
  },
  { name: "Health" },
);
