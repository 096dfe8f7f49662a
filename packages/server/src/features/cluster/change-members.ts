/**
 * Adds a node to the cluster, or takes one out. Both are done step by step: ask again until the answer says that it is
 * done.
 */
import type { AddedNode, NotChanged, RemovedNode } from "../../cluster/membership.ts";
import { type ClusterNode, readMember } from "../../config/cluster.ts";
import { type Answer, type Operation, type Refusal, refusal } from "../../edge/operation.ts";

export interface MemberInput {
  readonly node: string;
}

const step = {
  access: "operator",
  scope: undefined,
  rate: { scope: "admin", operation: "tasks" },
  audit: {
    of: "all",
    target: ({ node }: MemberInput) => node,
    detail: ({ state }: { readonly state: string }) => state,
  },
} as const;

export const addMember: Operation<MemberInput, AddedNode> = {
  ...step,
  name: "add_node",
  run: async ({ cluster }, _call, { node }) => {
    if (cluster === undefined) return refusal("no_cluster");
    const member = memberIn(node);
    return member.ok ? answerOf(await cluster.add(member.value)) : member;
  },
};

export const removeMember: Operation<MemberInput, RemovedNode> = {
  ...step,
  name: "remove_node",
  run: async ({ cluster }, _call, { node }) => {
    if (cluster === undefined) return refusal("no_cluster");
    return answerOf(await cluster.remove(node));
  },
};

function memberIn(text: string): Answer<ClusterNode> {
  const value = readMember(text);
  if (value !== undefined) return { ok: true, value };
  return refusal("invalid_argument", "invalid 'node' (id=host:port, such as d=10.0.0.4:7000)");
}

function answerOf<T extends object>(done: T | NotChanged): Answer<T> {
  return "why" in done ? refused(done) : { ok: true, value: done };
}

function refused({ code, why }: NotChanged): Refusal {
  return refusal(code, why);
}
