import { type ReactNode, Suspense, lazy, useEffect, useState, useSyncExternalStore } from "react";
import { SIGNED_OUT, api } from "./api/client";
import { useLoaded } from "./api/use";
import { CampaignsPage } from "./campaigns/CampaignsPage";
import { Neighbours } from "./campaigns/Neighbours";
import type { Feed } from "./live/feed";
import { FileBar } from "./ui/FileBar";
import { SignIn } from "./ui/SignIn";
import { AskedBadge, FreshnessBadge } from "./ui/FreshnessBadge";
import { Boundary } from "./ui/Boundary";
import { useAnnounced } from "./ui/announce";
import { Choice, Empty, Loading, Logo } from "./ui/parts";
import { setTheme, useTheme } from "./ui/theme";
import { type Page, TOP, addressOf, follow, isNamed, titleOf, usePlace } from "./url/router";

const CampaignPage = lazy(() => import("./campaign/CampaignPage"));
const ReportsPage = lazy(() => import("./reports/ReportsPage"));
const EnginePage = lazy(() => import("./engine/EnginePage"));
const CostsPage = lazy(() => import("./costs/CostsPage"));
const FixPage = lazy(() => import("./fix/FixPage"));
const OrdersPage = lazy(() => import("./orders/OrdersPage"));
const VaultPage = lazy(() => import("./vault/VaultPage"));
const AuditPage = lazy(() => import("./audit/AuditPage"));

/** Pages that stand behind another one, whose link is marked then. */
const BEHIND: Partial<Record<Page, Page>> = { campaign: "campaigns", costs: "engine" };

function Header({ page, feed }: { page: Page; feed: Feed }) {
  const theme = useTheme();
  return (
    <header className="top">
      <a className="brand" href={addressOf("campaigns")} onClick={follow}>
        <Logo />
        Weir
      </a>
      <nav aria-label="Pages">
        {TOP.filter((to) => !(to in BEHIND)).map((to) => (
          <a
            key={to}
            href={addressOf(to)}
            onClick={follow}
            aria-current={to === page || to === BEHIND[page] ? "page" : undefined}
          >
            {titleOf(to)}
          </a>
        ))}
      </nav>
      <span className="toolbar-rest" />
      {/* These show nothing of the live table. */}
      {isNamed(page) ? <AskedBadge /> : <FreshnessBadge feed={feed} />}
      <Choice
        label="Theme"
        value={theme}
        choose={setTheme}
        options={[
          ["system", "Auto", "As this computer"],
          ["light", "Light", "Light"],
          ["dark", "Dark", "Dark"],
        ]}
      />
    </header>
  );
}

/**
 * The token may be taken back while a page is open. Any call tells; a live stream that was refused does not say why, so it is asked
 * who is there each time that one is lost.
 */
function useSignedOut(feed: Feed, askWho: () => void): boolean {
  const [isOut, setOut] = useState(false);
  const attempt = useSyncExternalStore(feed.subscribe, () => feed.state.attempt);
  useEffect(() => {
    const out = () => setOut(true);
    window.addEventListener(SIGNED_OUT, out);
    return () => window.removeEventListener(SIGNED_OUT, out);
  }, []);
  useEffect(() => {
    if (attempt > 0) askWho();
  }, [attempt, askWho]);
  return isOut;
}

export function App({ feed }: { feed: Feed }) {
  const place = usePlace();
  const me = useLoaded("me", api.me);
  const isSignedOut = useSignedOut(feed, me.again);
  const spoken = useAnnounced();
  const title = titleOf(place.page);
  useEffect(() => {
    if (title) document.title = `${title} · Weir`;
  }, [title]);
  if (isSignedOut || me.problem?.status === 401) return <SignIn />;
  const pages: Record<Page, () => ReactNode> = {
    campaigns: () => <CampaignsPage feed={feed} me={me.value} search={place.search} />,
    campaign: () => (
      <>
        <Neighbours feed={feed} id={place.id} />
        <CampaignPage key={place.id} feed={feed} me={me.value} name={place.id} />
      </>
    ),
    reports: () => <ReportsPage feed={feed} search={place.search} />,
    engine: () => <EnginePage />,
    costs: () => <CostsPage />,
    vault: () => <VaultPage />,
    fix: () => <FixPage me={me.value} />,
    orders: () => <OrdersPage me={me.value} search={place.search} />,
    audit: () => <AuditPage me={me.value} />,
    unknown: () => (
      <main className="page">
        <h1 className="hidden-text">Not found</h1>
        <Empty title="There is no such page">
          <p>
            Nothing of this dashboard is at <code>{location.pathname}</code>.
          </p>
          <a className="button" href={addressOf("campaigns")} onClick={follow}>
            All budgets
          </a>
        </Empty>
      </main>
    ),
  };
  return (
    <>
      <Header page={place.page} feed={feed} />
      <FileBar />
      <div className="hidden-text" role="status">
        {spoken}
      </div>
      <Boundary place={place.page + place.id}>
        <Suspense
          fallback={
            <main className="page">
              <Loading what="the page" />
            </main>
          }
        >
          {pages[place.page]()}
        </Suspense>
      </Boundary>
    </>
  );
}
