/** Lanes of a queue: what they have and wait for, their limits, and their pauses. */
import { limits } from "@codeq/protocol";
import { api } from "@codeq/protocol/api";
import { queueOf, type TenantId } from "@codeq/queue";
import type { FoundLanes } from "../../core/broker/broker.ts";
import {
  areEmpty,
  type LaneLimits,
  type LaneName,
  noLaneLimits,
} from "../../core/records/lane-policy.ts";
import type { LaneLook } from "../../core/search/explained.ts";
import { bind } from "../../edge/bind.ts";
import { type Answer, type Call, refusal, type Server } from "../../edge/operation.ts";

interface OfLane {
  readonly name: string;
  readonly lane: string;
}

export const listLanes = bind(api.lanes.listLanes, {
  run: async ({ broker }, call, { name, lane, limit }) => {
    const of = { tenantId: call.identity.tenantId, name: queueOf(name) };
    const found = await broker.lanesOf(of, { lane, limit });
    return { ok: true, value: { ...found, lanes: sharesIn(found) } };
  },
});

export const putLane = bind(api.lanes.putLane, {
  run: (server, call, { name, lane, concurrency, rate: ofLane, weight }) =>
    change(server, nameOf(call, { name, lane }), ({ pause }) => ({
      concurrency,
      rate: ofLane,
      weight,
      pause,
    })),
});

export const deleteLane = bind(api.lanes.deleteLane, {
  run: async (server, call, of) => {
    await change(server, nameOf(call, of), ({ pause }) => ({ ...noLaneLimits, pause }));
    return { ok: true, value: undefined };
  },
});

export const pauseLane = bind(api.lanes.pauseLane, {
  run: (server, call, { name, lane, reason }) => {
    const pause = { by: call.identity.subject, atMs: server.clock.nowMs(), reason };
    return change(server, nameOf(call, { name, lane }), (before) => ({ ...before, pause }));
  },
  audit: { detail: ({ paused }) => paused?.reason ?? "" },
});

export const resumeLane = bind(api.lanes.resumeLane, {
  run: (server, call, of) =>
    change(server, nameOf(call, of), (before) => ({ ...before, pause: undefined })),
});

type ShownLane = LaneLook & { readonly share: number };

function sharesIn({ lanes, recentUnits: all }: FoundLanes): ShownLane[] {
  const share = (units: number): number =>
    all === 0 ? 0 : Math.round((units / all) * 1000) / 1000;
  return lanes.map((lane) => ({ ...lane, share: share(lane.recentUnits) }));
}

function nameOf({ identity }: Pick<Call, "identity">, { name, lane }: OfLane): LaneName {
  return { tenantId: identity.tenantId as TenantId, name: queueOf(name), lane };
}

async function change(
  { broker }: Server,
  of: LaneName,
  next: (before: LaneLimits) => LaneLimits,
): Promise<Answer<ShownLane>> {
  const { limits: before, count } = await broker.laneLimits(of);
  const after = next(before ?? noLaneLimits);
  const isMore = before === undefined && !areEmpty(after);
  if (isMore && count >= limits.laneLimitsMax) return refusal("too_many_lanes");
  await broker.setLane(of, after);
  const found = await broker.lanesOf(of, { lane: of.lane, limit: 1 });
  return { ok: true, value: sharesIn(found)[0] as ShownLane };
}
