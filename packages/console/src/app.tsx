/** Chooses the page for the address. */
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { connection } from "./api.ts";
import { shortId } from "./format.ts";
import { type KeyMap, useKeys } from "./keys.ts";
import { Dialogs } from "./overlays/dialog.tsx";
import { showKeys } from "./overlays/page-info.tsx";
import { ApiKeys } from "./pages/api-keys.tsx";
import { Audit } from "./pages/audit.tsx";
import { BatchDetails, Batches } from "./pages/batches.tsx";
import { Cluster } from "./pages/cluster.tsx";
import { Failures } from "./pages/failures.tsx";
import { Jobs } from "./pages/jobs.tsx";
import { Login } from "./pages/login.tsx";
import { allPages, isFor, pagesFor } from "./pages/nav.ts";
import { Overview } from "./pages/overview.tsx";
import { QueueDetails } from "./pages/queue.tsx";
import { Queues } from "./pages/queues.tsx";
import { ScheduleDetails } from "./pages/schedules/schedule.tsx";
import { Schedules } from "./pages/schedules/schedules.tsx";
import { Settings } from "./pages/settings.tsx";
import { Subscriptions } from "./pages/subscriptions.tsx";
import { Enqueue } from "./pages/tasks/enqueue.tsx";
import { TaskDetails } from "./pages/tasks/task.tsx";
import { Tasks } from "./pages/tasks/tasks.tsx";
import { Tenants } from "./pages/tenants.tsx";
import { Topics } from "./pages/topics.tsx";
import { Webhooks } from "./pages/webhooks.tsx";
import { Workers } from "./pages/workers.tsx";
import { Nothing } from "./parts/basics.tsx";
import { isPaused } from "./query.ts";
import { href, navigate, useLocation } from "./router.ts";
import { type Session, session } from "./session.ts";
import { type Crumb, Shell } from "./shell.tsx";
import { useStore } from "./store.ts";
import { Toasts } from "./toasts.tsx";

interface Shown {
  readonly crumbs: readonly Crumb[];
  readonly page: JSX.Element;
}

const pages: Readonly<Record<string, () => JSX.Element>> = {
  "": Overview,
  "/queues": Queues,
  "/tasks": Tasks,
  "/failures": Failures,
  "/schedules": Schedules,
  "/batches": Batches,
  "/jobs": Jobs,
  "/workers": Workers,
  "/webhooks": Webhooks,
  "/subscriptions": Subscriptions,
  "/topics": Topics,
  "/cluster": Cluster,
  "/enqueue": Enqueue,
  "/tenants": Tenants,
  "/keys": ApiKeys,
  "/audit": Audit,
  "/settings": Settings,
};

function shownAt(path: string, who: Session): Shown {
  const Page = pages[path];
  const entry = allPages.find((each) => each.path === path);
  if (Page !== undefined && entry !== undefined) {
    const page = isFor(who, entry) ? <Page /> : <NotForRole role={who.role} />;
    return { crumbs: [{ text: entry.title }], page };
  }
  const [, kind, part = ""] = /^\/(queues|tasks|schedules|batches)\/([^/]+)$/.exec(path) ?? [];
  const name = decoded(part);
  if (kind === "queues") {
    const crumbs = [{ text: "Queues", href: href("/queues") }, { text: name }];
    return { crumbs, page: <QueueDetails key={name} name={name} /> };
  }
  if (kind === "schedules") {
    const crumbs = [{ text: "Schedules", href: href("/schedules") }, { text: name }];
    return { crumbs, page: <ScheduleDetails key={name} id={name} /> };
  }
  if (kind === "batches") {
    const crumbs = [{ text: "Batches", href: href("/batches") }, { text: name }];
    return { crumbs, page: <BatchDetails key={name} id={name} /> };
  }
  if (kind === "tasks") {
    const crumbs = [{ text: "Tasks", href: href("/tasks") }, { text: shortId(name) }];
    return { crumbs, page: <TaskDetails key={name} id={name} /> };
  }
  return {
    crumbs: [{ text: "Not found" }],
    page: (
      <Nothing title="There is no such page" isPage>
        <p>
          <a href={href("")}>Go to the overview</a>
        </p>
      </Nothing>
    ),
  };
}

function NotForRole({ role }: Pick<Session, "role">): JSX.Element {
  return (
    <Nothing title={`Your role is ${role}, which cannot open this page`} icon="shield" isPage>
      <p>Sign in with a key of {role === "viewer" ? "an admin" : "an operator"} to see it.</p>
    </Nothing>
  );
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    // A mistyped address: the text is used as it is.
    return part;
  }
}

function pageKeys(who: Session): KeyMap {
  const pages = pagesFor(who).filter(({ key }) => key !== undefined);
  return Object.fromEntries(pages.map(({ key, path }) => [`g ${key}`, () => navigate(href(path))]));
}

export function App(): JSX.Element | null {
  const who = useStore(session);
  const { path } = useLocation();
  const { state } = useStore(connection);
  useKeys(
    who === null || who === undefined
      ? {}
      : { ...pageKeys(who), "?": showKeys, p: () => isPaused.set(!isPaused.get()) },
  );
  useEffect(() => {
    if (state === "signed-out") session.set(null);
  }, [state]);
  const shown = who === null || who === undefined ? undefined : shownAt(path, who);
  const title = shown?.crumbs.at(-1)?.text ?? "Sign in";
  useEffect(() => {
    document.title = `${title} · codeQ`;
  }, [title]);
  if (who === undefined) return null;
  return (
    <>
      {who === null || shown === undefined ? (
        <Login />
      ) : (
        <Shell session={who} crumbs={shown.crumbs}>
          {shown.page}
        </Shell>
      )}
      <Dialogs />
      <Toasts />
    </>
  );
}
