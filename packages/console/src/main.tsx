/** Starts the console. */
import { render } from "preact";
import { App } from "./app.tsx";
import { listenForKeys } from "./keys.ts";
import { openPalette } from "./overlays/palette.tsx";
import { applyTheme, startClock, theme } from "./preferences.ts";
import { startRefreshing } from "./query.ts";
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
void resume();
