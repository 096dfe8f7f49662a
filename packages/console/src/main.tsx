import { render } from "preact";
import { ask, connection } from "./api.ts";
import { App } from "./app.tsx";
import { adjustFeed, startFeed } from "./feed.ts";
import { listenForKeys } from "./keys.ts";
import { healthCall } from "./model/server.ts";
import { openPalette } from "./overlays/palette.tsx";
import { applyTheme, startClock, theme } from "./preferences.ts";
import { invalidate, isPaused, refreshDue, startRefreshing } from "./query.ts";
import { followLinks } from "./router.ts";
import { resume, session } from "./session.ts";
import "./style/tokens.css";
import "./style/app.css";

applyTheme();
theme.subscribe(applyTheme);
const root = document.getElementById("app");
if (root !== null) render(<App />, root);
document.addEventListener("click", followLinks);
listenForKeys(() => {
  if (session.get() !== null) openPalette();
});
startClock();
startRefreshing();
startFeed({
  onChange: refreshDue,
  // `connection` has the result of the request; the banner shows what is wrong.
  onLate: () => void ask(healthCall).catch(() => {}),
  onLost: () => {
    if (!isPaused.get()) invalidate();
  },
  isWanted: () => Boolean(session.get()) && connection.get().state !== "signed-out",
  isCounting: isPaused.get,
});
session.subscribe(adjustFeed);
connection.subscribe(adjustFeed);
void resume();
