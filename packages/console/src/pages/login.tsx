/** Signing in. The key goes to this server in a header; it never stands in a URL. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Kbd } from "../parts/basics.tsx";
import { Icon, Wordmark } from "../parts/icon.tsx";
import { signIn } from "../session.ts";

export function Login(): JSX.Element {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
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
        <label class="field">
          <span>API key or token</span>
          <input
            class="input mono"
            type="password"
            autocomplete="current-password"
            required
            value={token}
            aria-invalid={problem !== ""}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        {problem === "" ? null : (
          <p class="note is-bad" role="alert">
            <Icon name="warn" />
            <span>{problem}</span>
          </p>
        )}
        <button class="btn primary" type="submit" disabled={isBusy || token.trim() === ""}>
          Sign in <Kbd>↵</Kbd>
        </button>
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
