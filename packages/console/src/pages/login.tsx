/** Signs in at an identity server, or with a key, which is sent in a header and never in a URL. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Kbd, Problem } from "../parts/basics.tsx";
import { Button } from "../parts/buttons.tsx";
import { TextField } from "../parts/fields.tsx";
import { Icon, Wordmark } from "../parts/icon.tsx";
import { href } from "../router.ts";
import { identityServer, signIn } from "../session.ts";
import { useStore } from "../store.ts";

/** By the code in the URL after a failed sign-in at the identity server. */
const loginProblems: Readonly<Record<string, string>> = {
  expired:
    "The sign-in took too long, or was started in another browser or tab. Start it again in this tab.",
  refused:
    "The identity server refused the sign-in. Try again; the log of this server has the reason.",
  issuer:
    "The answer did not come from the configured identity server. Do not try again before an operator has checked the setting issuer and the log of this server.",
  unreachable: "The identity server does not answer. Try again later, or sign in with an API key.",
  token:
    "This server does not accept the token of the identity server. An operator finds the reason in the log; audience and consoleLoginResource are the usual causes.",
  role: "You have no role for this console. Ask an admin of the identity server for the role viewer, admin or operator.",
};

function problemInUrl(): string {
  return loginProblems[new URLSearchParams(window.location.search).get("login") ?? ""] ?? "";
}

export function Login(): JSX.Element {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState(problemInUrl);
  const elsewhere = useStore(identityServer);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setProblem((await signIn(token)) ?? "");
    setBusy(false);
  };
  return (
    <main class="center">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <Wordmark />
        <div>
          <h1>Sign in</h1>
          <p class="muted">{window.location.host}</p>
        </div>
        {elsewhere === undefined ? null : (
          <>
            <a class="btn primary" href={loginUrl()} target="_self">
              <Icon name="shield" />
              Sign in at <bdi>{elsewhere}</bdi>
            </a>
            <p class="muted">Or with a key:</p>
          </>
        )}
        <TextField
          label="API key or token"
          isCode
          value={token}
          onChange={setToken}
          input={{
            type: "password",
            autocomplete: "current-password",
            required: true,
            "aria-invalid": problem !== "",
          }}
        />
        <Problem text={problem} />
        <Button
          class={elsewhere === undefined ? "primary" : ""}
          type="submit"
          disabled={isBusy || token.trim() === ""}
        >
          Sign in <Kbd>↵</Kbd>
        </Button>
        <p class="faint">
          <small>
            The key goes to this server only and never into a URL. No key yet? Run{" "}
            <code>codeq keys create --tenant acme --name console --role admin</code> on the server.
          </small>
        </p>
      </form>
    </main>
  );
}

/** Returns to the page that the user opened. */
function loginUrl(): string {
  const { pathname, search } = window.location;
  const isPage = pathname !== "/" && new URLSearchParams(search).get("login") === null;
  const to = isPage ? pathname + search : href("");
  return `/ui/login?${new URLSearchParams({ to })}`;
}
