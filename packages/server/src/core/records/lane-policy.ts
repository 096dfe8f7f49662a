/** What an administrator gave to one lane, as text; it comes before what the topic gives to each lane. */
import { put, remove } from "@codeq/engine";
import { limits } from "@codeq/protocol";
import type * as api from "@codeq/protocol/api";
import { durationMs, type Rate } from "@codeq/queue";
import { lanePolicyKey } from "../store/keys.ts";
import { parseRecord } from "../store/row-of.ts";
import type { QueueName, RecordWrite } from "../store/store.ts";
import type { QueuePause } from "./pause-record.ts";
import type { TopicPolicy } from "./topic-record.ts";

export type WireRate = api.KeptOf<typeof api.Rate>;

/** A lane of a queue. */
export interface LaneName extends QueueName {
  readonly lane: string;
}

export const laneRule = `at most ${limits.laneBytesMax} bytes on one line, and not . or .., which no URL can name`;

export function isLaneName(lane: string): boolean {
  if (lane === "." || lane === ".." || lane.length > limits.laneBytesMax) return false;
  if (Buffer.byteLength(lane) > limits.laneBytesMax) return false;
  return lane.isWellFormed() && !/\p{Cc}/u.test(lane);
}

/** What applies to one lane, or to the queue. */
export interface LanePolicy {
  /** How many tasks may be leased. */
  readonly concurrency: number;
  readonly rate: Rate | undefined;
  readonly weight: number;
  readonly pause: QueuePause | undefined;
}

export const anyPolicy: LanePolicy = {
  concurrency: Number.POSITIVE_INFINITY,
  rate: undefined,
  weight: 1,
  pause: undefined,
};

/** Fields that are undefined are those of the topic. */
export interface LaneLimits {
  readonly concurrency: number | undefined;
  readonly rate: WireRate | undefined;
  readonly weight: number | undefined;
  readonly pause: QueuePause | undefined;
}

export interface NamedLaneLimits extends LaneName {
  readonly limits: LaneLimits;
}

export const noLaneLimits: LaneLimits = {
  concurrency: undefined,
  rate: undefined,
  weight: undefined,
  pause: undefined,
};

export function rateOf(rate: WireRate | undefined): Rate | undefined {
  if (rate === undefined) return undefined;
  const { units, per, burst } = rate;
  return { units, perMs: durationMs(per) ?? 0, burst: burst || units };
}

/** What a topic gives to each lane. */
export function lanesPolicyOf({ lanes }: Pick<TopicPolicy, "lanes">): LanePolicy {
  if (lanes === undefined) return anyPolicy;
  const { concurrency, rate, weight = anyPolicy.weight } = lanes;
  return { ...anyPolicy, concurrency: limitOf(concurrency), rate: rateOf(rate), weight };
}

export function policyOf(each: LanePolicy, own: LaneLimits | undefined): LanePolicy {
  if (own === undefined) return each;
  return {
    concurrency: own.concurrency === undefined ? each.concurrency : limitOf(own.concurrency),
    rate: rateOf(own.rate) ?? each.rate,
    weight: own.weight ?? each.weight,
    pause: own.pause,
  };
}

function limitOf(concurrency: number): number {
  return concurrency || Number.POSITIVE_INFINITY;
}

/** The write of limits; the removal of limits that say nothing. */
export function writeOfLimits(of: LaneName, limits: LaneLimits | undefined): RecordWrite {
  const key = lanePolicyKey(of);
  if (limits === undefined) return remove(key);
  const { concurrency = null, rate = null, weight = null, pause = null } = limits;
  return put(key, JSON.stringify([concurrency, rate, weight, pause]));
}

/** Whether the limits say nothing. */
export function areEmpty({ concurrency, rate, weight, pause }: LaneLimits): boolean {
  return [concurrency, rate, weight, pause].every((each) => each === undefined);
}

/** Undefined when the text is not a valid record. */
export function decodeLimits(text: string): LaneLimits | undefined {
  const row = parseRecord(text);
  if (!Array.isArray(row) || row.length !== 4) return undefined;
  const [concurrency, rate, weight, pause] = row as [
    number | null,
    WireRate | null,
    number | null,
    QueuePause | null,
  ];
  if (weight !== null && !Number.isSafeInteger(weight)) return undefined;
  const rest = { weight: weight ?? undefined, pause: pause ?? undefined };
  return { concurrency: concurrency ?? undefined, rate: rate ?? undefined, ...rest };
}
