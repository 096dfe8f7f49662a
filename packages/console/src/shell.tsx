/** The frame of every page: navigation, top bar, the banner of a lost connection. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { connection, isLost, tenant } from "./api.ts";
import { missedEvents } from "./feed.ts";
import { ago, count, timeModes } from "./format.ts";
import { useHealth, useTenants } from "./model/server.ts";
import { showApiCalls, showKeys } from "./overlays/page-info.tsx";
import { openPalette } from "./overlays/palette.tsx";
import { isFor, navigation } from "./pages/nav.ts";
import { chooseTenant } from "./pages/tenants.tsx";
import { Badge, Kbd } from "./parts/basics.tsx";
import { Button } from "./parts/buttons.tsx";
import { Icon, type IconName, Wordmark } from "./parts/icon.tsx";
import { isDark, theme, timeMode, useNow } from "./preferences.ts";
import { invalidate, isPaused } from "./query.ts";
import { href, useLocation } from "./router.ts";
import { type Session, signOut } from "./session.ts";
import { useStore } from "./store.ts";
import { tellProblem } from "./toasts.tsx";

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
  const isOffline = useIsOffline();
  return (
    <>
      <a class="skip" href="#page">
        Skip to content
      </a>
      <div class={`shell ${isNavOpen ? "nav-open" : ""} ${isOffline ? "offline" : ""}`}>
        <Side session={props.session} onClose={() => setNavOpen(false)} />
        <div class="main">
          <TopBar crumbs={props.crumbs} onMenu={() => setNavOpen(true)} />
          <Banner isOffline={isOffline} />
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
      <div class="side-head row">
        <a href={href("")} aria-label="codeQ, overview">
          <Wordmark />
        </a>
        <span class="env">{session.env}</span>
        <IconButton class="sm only-narrow" icon="x" label="Close navigation" onClick={onClose} />
      </div>
      <TenantChoice session={session} />
      <Button class="search-btn" icon="search" onClick={openPalette}>
        Search or jump to
        <Kbd>{isMac ? "⌘K" : "Ctrl K"}</Kbd>
      </Button>
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
                      class="row"
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
      <p class="tenant-name row">
        <Icon name="tenants" />
        <span class="sr">Tenant</span>
        <bdi class="trunc">{session.tenantId}</bdi>
      </p>
    );
  }
  return (
    <label class="tenant-name row">
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
      <div class="me row">
        <span class="avatar" aria-hidden="true">
          {session.subject.slice(0, 2)}
        </span>
        <span class="grow trunc">
          <bdi>{session.subject}</bdi> · {session.role}
          {session.payloads === "hidden" ? ", payloads hidden" : ""}
        </span>
        <Button class="ghost sm" onClick={() => void signOut().catch(tellProblem)}>
          Sign out
        </Button>
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
    <header class="topbar row">
      <IconButton class="menu-btn" icon="menu" label="Open navigation" onClick={onMenu} />
      <nav class="crumbs row" aria-label="Breadcrumb">
        {crumbs.map((crumb, at) => (
          <span key={crumb.text} class="row">
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
      <Button
        class="ghost sm wide"
        title={`Times are ${names[mode].toLowerCase()}; switch to ${names[next].toLowerCase()}`}
        onClick={() => timeMode.set(next)}
      >
        {names[mode]}
      </Button>
      <IconButton
        class="sm wide"
        icon="api"
        label="Show the API calls of this page"
        onClick={showApiCalls}
      />
      <IconButton
        class="sm"
        icon={isDark() ? "sun" : "moon"}
        label={isDark() ? "Switch to light" : "Switch to dark"}
        onClick={() => theme.set(isDark() ? "light" : "dark")}
      />
      <IconButton class="sm wide" icon="help" label="Keyboard shortcuts" onClick={showKeys} />
      <IconButton class="sm only-narrow" icon="search" label="Search" onClick={openPalette} />
    </header>
  );
}

interface IconButtonProps {
  readonly class: string;
  readonly icon: IconName;
  readonly label: string;
  readonly onClick: () => void;
}

function IconButton({ class: look, icon, label, onClick }: IconButtonProps): JSX.Element {
  return (
    <Button class={`ghost icon ${look}`} aria-label={label} onClick={onClick}>
      <Icon name={icon} />
    </Button>
  );
}

function LiveButton(): JSX.Element {
  const paused = useStore(isPaused);
  const missed = useStore(missedEvents);
  const { state } = useStore(connection);
  if (state === "offline" || state === "silent") {
    return (
      <Badge tone="warn" icon="offline">
        {state === "offline" ? "Offline" : "No answer"}
      </Badge>
    );
  }
  return (
    <Button class="sm" aria-pressed={!paused} onClick={() => isPaused.set(!paused)}>
      {paused ? (
        <Badge tone="warn" icon="pause">
          Paused{missed === 0 ? "" : `, ${count(missed)} new`}
        </Badge>
      ) : (
        <span class="st t-done">
          <svg class="pulse" width="8" height="8" aria-hidden="true">
            <circle cx="4" cy="4" r="4" fill="currentColor" />
          </svg>
          Live
        </span>
      )}
      <span class="faint wide-only">{paused ? "Resume" : "Pause"}</span>
      <Kbd>P</Kbd>
    </Button>
  );
}

const patienceMs = 2000;
const reliefMs = 2500;

/** True after a delay: most lost connections come back at once. */
function useIsOffline(): boolean {
  const { answeredMs } = useStore(connection);
  return useNow() - answeredMs > patienceMs && isLost();
}

function Banner({ isOffline }: { readonly isOffline: boolean }): JSX.Element {
  const { answeredMs, state } = useStore(connection);
  const nowMs = useNow();
  const [wasOffline, setWasOffline] = useState(false);
  useEffect(() => {
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
        <div class="banner row wrap">
          <Icon name="offline" />
          <span>
            {state === "silent" ? "The server does not answer" : "Connection to the server lost"}
          </span>
          <span class="d">
            Data from {ago(answeredMs, nowMs)}. Actions are off until the server answers.
          </span>
          <Button class="sm safe" onClick={() => invalidate()}>
            Retry now
          </Button>
        </div>
      ) : wasOffline ? (
        <div class="banner row wrap is-good">
          <Icon name="done" />
          <span>Connected again</span>
          <span class="d">Everything on this page is current.</span>
        </div>
      ) : null}
    </div>
  );
}
