/** `subscriptions`: URLs that are notified when queues have work. */
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Column, tableLines } from "../terminal/table.ts";
import { localMoment } from "../terminal/units.ts";

interface SubscriptionFields {
  readonly subscriptionId: string;
  readonly callbackUrl: string;
  readonly eventTypes: readonly string[];
  readonly deliveryMode: string;
  readonly groupId?: string;
  readonly minIntervalSeconds: number;
  readonly expiresAt: string;
}

const pageLimit = 200;

/** Workers have their own subscriptions; an administrator has all of the tenant. */
function baseOf({ options }: Call): string {
  return options.has("as-admin") ? "/admin/subscriptions" : "/workers/subscriptions";
}

function askerOf({ options }: Call): { readonly as?: "worker" } {
  return options.has("as-admin") ? {} : { as: "worker" };
}

export async function create(call: Call): Promise<number> {
  const { options } = call;
  const group = options.text("group");
  const body = JSON.stringify({
    callbackUrl: call.word(0),
    eventTypes: options.list("events"),
    ttlSeconds: secondsOf(call, "ttl"),
    deliveryMode: options.text("mode") ?? (group === undefined ? undefined : "group"),
    groupId: group,
    minIntervalSeconds: secondsOf(call, "min-interval"),
  });
  const api = await call.api();
  const { text } = await api.post(baseOf(call), body, askerOf(call));
  if (call.json) {
    call.print(text);
    return exitCodes.ok.code;
  }
  const { subscriptionId, expiresAt } = JSON.parse(text) as SubscriptionFields;
  call.print(subscriptionId);
  call.note(`it lasts until ${localMoment(expiresAt)}; codeq subscriptions renew prolongs it`);
  return exitCodes.ok.code;
}

export async function list(call: Call): Promise<number> {
  const api = await call.api();
  const subscriptions: SubscriptionFields[] = [];
  for (let after: string | undefined = ""; after !== undefined; ) {
    const { text } = await api.get(
      `${baseOf(call)}?limit=${pageLimit}&after=${after}`,
      askerOf(call),
    );
    const page = JSON.parse(text) as { subscriptions: SubscriptionFields[]; next?: string };
    subscriptions.push(...page.subscriptions);
    after = page.next;
  }
  if (call.json) call.printJson({ subscriptions });
  else if (subscriptions.length === 0) {
    call.print("no subscriptions; codeq subscriptions create makes one");
  } else for (const line of tableLines(columns, subscriptions, call.style)) call.print(line);
  return exitCodes.ok.code;
}

const columns: readonly Column<SubscriptionFields>[] = [
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

export async function get(call: Call): Promise<number> {
  const api = await call.api();
  const { text } = await api.get(pathOf(call), askerOf(call));
  if (call.json) call.print(text);
  else {
    const found = JSON.parse(text) as SubscriptionFields;
    for (const line of tableLines(columns, [found], call.style)) call.print(line);
  }
  return exitCodes.ok.code;
}

export async function renew(call: Call): Promise<number> {
  const api = await call.api();
  const body = JSON.stringify({ ttlSeconds: secondsOf(call, "ttl") });
  const { text } = await api.post(`${pathOf(call)}/heartbeat`, body, askerOf(call));
  const { expiresAt } = JSON.parse(text) as SubscriptionFields;
  if (call.json) call.print(text);
  else call.print(`${call.word(0)} lasts until ${localMoment(expiresAt)}`);
  return exitCodes.ok.code;
}

export async function remove(call: Call): Promise<number> {
  const api = await call.api();
  await api.delete(pathOf(call), askerOf(call));
  if (call.json) call.printJson({ subscriptionId: call.word(0), deleted: true });
  else call.print(`${call.word(0)} is deleted`);
  return exitCodes.ok.code;
}

function pathOf(call: Call): string {
  return `${baseOf(call)}/${encodeURIComponent(call.word(0))}`;
}

function secondsOf(call: Call, option: string): number | undefined {
  const ms = call.options.durationMs(option);
  return ms === undefined ? undefined : Math.ceil(ms / 1000);
}
