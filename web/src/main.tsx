import { createRoot } from "react-dom/client";
import { token } from "./api/client";
import { App } from "./app";
import { Feed } from "./live/feed";
import { applyTheme } from "./ui/theme";
import "./ui/tokens.css";
import "./ui/app.css";
import "./grid/grid.css";

applyTheme();
const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1/live`;
const feed = new Feed(address, token);
feed.start();
createRoot(document.getElementById("root")!).render(<App feed={feed} />);
