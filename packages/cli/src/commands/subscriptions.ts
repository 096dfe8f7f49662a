/** `subscriptions`: URLs that are notified when queues have work. */
import type { ItemOf } from "@codeq/client/command-line";
import * as contract from "../api/contract-commands.ts";
import type { Call } from "../call.ts";
import type { Column } from "../terminal/table.ts";
import { localMoment } from "../terminal/units.ts";

/** Workers have their own subscriptions; an administrator has all of the tenant. */
function sideOf({ options }: Call): "admin" | "workers" {
  return options.has("as-admin") ? "admin" : "workers";
}

export async function create(call: Call): Promise<void> {
  const wanted = contract.bodyOf(call, "POST /admin/subscriptions");
  const deliveryMode = wanted.deliveryMode ?? (wanted.groupId === undefined ? undefined : "group");
  const body = { ...wanted, callbackUrl: call.word(0), deliveryMode };
  const { text, value } = await contract.ask(call, `POST /${sideOf(call)}/subscriptions`, { body });
  call.print(call.json ? text : value.subscriptionId);
  const end = localMoment(value.expiresAt);
  call.note(`it lasts until ${end}; codeq subscriptions renew prolongs it`);
}

const columns: readonly Column<ItemOf<"GET /admin/subscriptions">>[] = [
  { title: "ID", show: ({ subscriptionId }) => subscriptionId },
  { title: "COMMANDS", show: ({ eventTypes }) => eventTypes.join(",") },
  {
    title: "MODE",
    show: ({ deliveryMode, groupId = "" }) =>
      groupId === "" ? deliveryMode : `${deliveryMode} ${groupId}`,
  },
  { title: "EXPIRES", show: ({ expiresAt }) => localMoment(expiresAt) },
  { title: "URL", show: ({ callbackUrl }) => callbackUrl },
];

export function list(call: Call): Promise<void> {
  const none = "no subscriptions; codeq subscriptions create makes one";
  return contract.showAll(call, `GET /${sideOf(call)}/subscriptions`, { columns, none });
}

export function get(call: Call): Promise<void> {
  const request = [`GET /${sideOf(call)}/subscriptions/:id`, idOf(call)] as const;
  return contract.showOne(call, request, columns);
}

export function renew(call: Call): Promise<void> {
  const given = {
    ...idOf(call),
    body: contract.bodyOf(call, "POST /admin/subscriptions/:id/heartbeat"),
  };
  return contract.print(
    call,
    [`POST /${sideOf(call)}/subscriptions/:id/heartbeat`, given],
    ({ expiresAt }) => `${call.word(0)} lasts until ${localMoment(expiresAt)}`,
  );
}

function remove(call: Call): Promise<void> {
  return contract.remove(call, [`DELETE /${sideOf(call)}/subscriptions/:id`, idOf(call)], {
    json: { subscriptionId: call.word(0), deleted: true },
    done: `${call.word(0)} is deleted`,
  });
}

export { remove as delete };

function idOf(call: Call) {
  return { params: { id: call.word(0) } };
}
