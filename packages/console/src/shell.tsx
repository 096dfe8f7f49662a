/** What stands around every page: navigation, top bar, the banner of a lost connection. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { connection, tenant } from "./api.ts";
import { missedEvents } from "./feed.ts";
import { ago, count, timeModes } from "./format.ts";
import { useHealth, useTenants } from "./model/server.ts";
import { showApiCalls } from "./overlays/api-calls.tsx";
import { showKeys } from "./overlays/key-list.tsx";
import { openPalette } from "./overlays/palette.tsx";
import { isFor, navigation } from "./pages/nav.ts";
import { chooseTenant } from "./pages/tenants.tsx";
import { Kbd } from "./parts/basics.tsx";
import { Icon, Wordmark } from "./parts/icon.tsx";
import { isDark, theme, timeMode, useNow } from "./preferences.ts";
import { invalidate, isPaused } from "./query.ts";
import { href, useLocation } from "./router.ts";
import { type Session, signOut } from "./session.ts";
import { useStore } from "./store.ts";

export interface Crumb {
  readonly text: string;
  readonly href?: string;
}

export function Shell(props: {
  readonly session: Session;
  readonly crumbs: readonly Crumb[];
  readonly children: ComponentChildren;
}): JSX.Element {
  const { path } = useLocation();
  const [isNavOpen, setNavOpen] = useState(false);
  useEffect(() => setNavOpen(false), [path]);
  useEffect(() => {
    document.body.classList.toggle("nav-open", isNavOpen);
  }, [isNavOpen]);
  return (
    <>
      <a class="skip" href="#page">
        Skip to content
      </a>
      <div class="shell">
        <Side session={props.session} onClose={() => setNavOpen(false)} />
        <div class="main">
          <TopBar crumbs={props.crumbs} onMenu={() => setNavOpen(true)} />
          <Banner />
          <main class="page" id="page" tabIndex={-1}>
            {props.children}
          </main>
        </div>
      </div>
    </>
  );
}

function Side({ session, onClose }: { session: Session; onClose: () => void }): JSX.Element {
  const { path } = useLocation();
  return (
    <aside
      class="side"
      aria-label="Navigation"
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
      }}
    >
      <div class="side-head">
        <a href={href("")} aria-label="codeQ, overview">
          <Wordmark />
        </a>
        <span class="env">{session.env}</span>
        <button
          class="btn ghost icon sm only-narrow"
          type="button"
          aria-label="Close navigation"
          onClick={onClose}
        >
          <Icon name="x" />
        </button>
      </div>
      <TenantChoice session={session} />
      <button class="btn search-btn" type="button" onClick={openPalette}>
        <Icon name="search" />
        Search or jump to
        <Kbd>{isMac ? "⌘K" : "Ctrl K"}</Kbd>
      </button>
      <nav class="nav" aria-label="Main">
        {navigation.map(({ title, entries }, at) => (
          <div key={title}>
            {at === 0 ? null : <h3>{title}</h3>}
            <ul>
              {entries
                .filter((each) => isFor(session, each))
                .map((each) => (
                  <li key={each.path}>
                    <a
                      href={href(each.path)}
                      aria-current={isUnder(path, each.path) ? "page" : undefined}
                    >
                      <Icon name={each.icon} />
                      {each.title}
                      {each.key === undefined ? null : (
                        <span class="hint wide" aria-hidden="true">
                          G {each.key.toUpperCase()}
                        </span>
                      )}
                    </a>
                  </li>
                ))}
            </ul>
          </div>
        ))}
      </nav>
      <SideFoot session={session} />
    </aside>
  );
}

const isMac: boolean = /Mac|iPhone|iPad/.test(navigator.userAgent);

function isUnder(path: string, page: string): boolean {
  return path === page || (page !== "" && path.startsWith(`${page}/`));
}

function TenantChoice({ session }: { readonly session: Session }): JSX.Element {
  const chosen = useStore(tenant);
  const known = useTenants(session.role === "operator").data?.tenants ?? [];
  const all = [...new Set([session.tenantId, ...known, ...(chosen === "" ? [] : [chosen])])].sort();
  if (all.length < 2) {
    return (
      <p class="tenant-name">
        <Icon name="tenants" />
        <span class="sr">Tenant</span>
        <bdi class="trunc">{session.tenantId}</bdi>
      </p>
    );
  }
  return (
    <label class="tenant-name">
      <Icon name="tenants" />
      <span class="sr">Tenant</span>
      <select
        class="input"
        value={chosen === "" ? session.tenantId : chosen}
        onChange={(event) => {
          const { value } = event.currentTarget;
          chooseTenant(value === session.tenantId ? "" : value);
        }}
      >
        {all.map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
    </label>
  );
}

function SideFoot({ session }: { readonly session: Session }): JSX.Element {
  const { data: health } = useHealth();
  const isOpen = health === undefined || health.storage === "open";
  return (
    <div class="side-foot">
      <div class="node">
        <span class={isOpen ? "good" : "bad"}>
          <Icon name={isOpen ? "shield" : "warn"} />
        </span>
        <span>
          <b>{isOpen ? session.durability : `storage ${health.storage}`}</b>
        </span>
        <span />
        <span class="faint">
          {window.location.host} · v{session.version}
        </span>
      </div>
      <div class="me">
        <span class="avatar" aria-hidden="true">
          {session.subject.slice(0, 2)}
        </span>
        <span class="grow trunc">
          <bdi>{session.subject}</bdi> · {session.role}
          {session.payloads === "hidden" ? ", payloads hidden" : ""}
        </span>
        <button class="btn ghost sm" type="button" onClick={() => void signOut()}>
          Sign out
        </button>
      </div>
    </div>
  );
}

function TopBar({ crumbs, onMenu }: { crumbs: readonly Crumb[]; onMenu: () => void }): JSX.Element {
  const mode = useStore(timeMode);
  useStore(theme);
  const next = timeModes[(timeModes.indexOf(mode) + 1) % timeModes.length] ?? "relative";
  const names = { relative: "Relative", local: "Local", utc: "UTC" } as const;
  return (
    <header class="topbar">
      <button
        class="btn ghost icon menu-btn"
        type="button"
        aria-label="Open navigation"
        onClick={onMenu}
      >
        <Icon name="menu" />
      </button>
      <nav class="crumbs" aria-label="Breadcrumb">
        {crumbs.map((crumb, at) => (
          <span key={crumb.text} class="crumb">
            {at === 0 ? null : (
              <span class="sep" aria-hidden="true">
                /
              </span>
            )}
            {crumb.href === undefined ? (
              <bdi class="here trunc">{crumb.text}</bdi>
            ) : (
              <a href={crumb.href}>{crumb.text}</a>
            )}
          </span>
        ))}
      </nav>
      <span class="grow" />
      <LiveButton />
      <button
        class="btn ghost sm wide"
        type="button"
        title={`Times are ${names[mode].toLowerCase()}; switch to ${names[next].toLowerCase()}`}
        onClick={() => timeMode.set(next)}
      >
        {names[mode]}
      </button>
      <button
        class="btn ghost icon sm wide"
        type="button"
        aria-label="Show the API calls of this page"
        onClick={showApiCalls}
      >
        <Icon name="api" />
      </button>
      <button
        class="btn ghost icon sm"
        type="button"
        aria-label={isDark() ? "Switch to light" : "Switch to dark"}
        onClick={() => theme.set(isDark() ? "light" : "dark")}
      >
        <Icon name={isDark() ? "sun" : "moon"} />
      </button>
      <button
        class="btn ghost icon sm wide"
        type="button"
        aria-label="Keyboard shortcuts"
        onClick={showKeys}
      >
        <Icon name="help" />
      </button>
      <button
        class="btn ghost icon sm only-narrow"
        type="button"
        aria-label="Search"
        onClick={openPalette}
      >
        <Icon name="search" />
      </button>
    </header>
  );
}

function LiveButton(): JSX.Element {
  const paused = useStore(isPaused);
  const missed = useStore(missedEvents);
  const { state } = useStore(connection);
  if (state === "offline") {
    return (
      <span class="st st-warn">
        <Icon name="offline" small />
        Offline
      </span>
    );
  }
  return (
    <button
      class="btn sm"
      type="button"
      aria-pressed={!paused}
      onClick={() => isPaused.set(!paused)}
    >
      {paused ? (
        <span class="st st-warn">
          <Icon name="pause" small />
          Paused{missed === 0 ? "" : `, ${count(missed)} new`}
        </span>
      ) : (
        <span class="st st-done">
          <svg class="pulse" width="8" height="8" aria-hidden="true">
            <circle cx="4" cy="4" r="4" fill="currentColor" />
          </svg>
          Live
        </span>
      )}
      <span class="faint wide-only">{paused ? "Resume" : "Pause"}</span>
      <Kbd>P</Kbd>
    </button>
  );
}

const patienceMs = 2000;
const reliefMs = 2500;

/** Only after a moment: most lost connections are back before anybody notices. */
function Banner(): JSX.Element {
  const { state, answeredMs } = useStore(connection);
  const nowMs = useNow();
  const [wasOffline, setWasOffline] = useState(false);
  const isOffline = state === "offline" && nowMs - answeredMs > patienceMs;
  useEffect(() => {
    document.body.classList.toggle("offline", isOffline);
    if (isOffline) {
      setWasOffline(true);
      return undefined;
    }
    const timer = setTimeout(() => setWasOffline(false), reliefMs);
    return () => clearTimeout(timer);
  }, [isOffline]);
  return (
    <div role="status">
      {isOffline ? (
        <div class="banner">
          <Icon name="offline" />
          <span>Connection to the server lost</span>
          <span class="d">
            Data from {ago(answeredMs, nowMs)}. Actions are off until the server answers.
          </span>
          <button class="btn sm safe" type="button" onClick={() => invalidate()}>
            Retry now
          </button>
        </div>
      ) : wasOffline ? (
        <div class="banner is-good">
          <Icon name="done" />
          <span>Connected again</span>
          <span class="d">Everything on this page is current.</span>
        </div>
      ) : null}
    </div>
  );
}
