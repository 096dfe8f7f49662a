/** The pages, in the order of the navigation. */
import type { IconName } from "../parts/icon.tsx";
import type { Session } from "../session.ts";

export interface NavEntry {
  readonly path: string;
  readonly title: string;
  readonly icon: IconName;
  /** Pressed after G. */
  readonly key?: string;
  readonly forOperators?: boolean;
  /** Hidden from viewers. */
  readonly forAdmins?: boolean;
}

export const navigation: readonly {
  readonly title: string;
  readonly entries: readonly NavEntry[];
}[] = [
  {
    title: "Work",
    entries: [
      { path: "", title: "Overview", icon: "overview", key: "o" },
      { path: "/queues", title: "Queues", icon: "queues", key: "q" },
      { path: "/tasks", title: "Tasks", icon: "tasks", key: "t" },
      { path: "/failures", title: "Failures", icon: "failures", key: "f" },
      { path: "/schedules", title: "Schedules", icon: "delayed", key: "d" },
      { path: "/batches", title: "Batches", icon: "batches", key: "m" },
      { path: "/jobs", title: "Bulk jobs", icon: "bulk", key: "b" },
      { path: "/workers", title: "Workers", icon: "workers", key: "w" },
      { path: "/enqueue", title: "Enqueue", icon: "plus", key: "e", forAdmins: true },
    ],
  },
  {
    title: "Platform",
    entries: [
      { path: "/webhooks", title: "Webhooks", icon: "webhooks", key: "h" },
      { path: "/subscriptions", title: "Subscriptions", icon: "link", key: "u" },
      { path: "/topics", title: "Topics", icon: "bookmark", key: "p" },
      { path: "/cluster", title: "Cluster", icon: "cluster", key: "c" },
    ],
  },
  {
    title: "Access",
    entries: [
      { path: "/tenants", title: "Tenants", icon: "tenants", forOperators: true },
      { path: "/keys", title: "API keys", icon: "keys", key: "k", forAdmins: true },
      { path: "/audit", title: "Audit", icon: "audit", key: "a", forAdmins: true },
      { path: "/settings", title: "Settings", icon: "settings", key: "s" },
    ],
  },
];

export const allPages: readonly NavEntry[] = navigation.flatMap(({ entries }) => entries);

/** Whether the server answers the calls of the page to this role. */
export function isFor({ role }: Pick<Session, "role">, page: NavEntry): boolean {
  if (page.forOperators === true) return role === "operator";
  return page.forAdmins !== true || role !== "viewer";
}

export function pagesFor(session: Pick<Session, "role">): readonly NavEntry[] {
  return allPages.filter((page) => isFor(session, page));
}
