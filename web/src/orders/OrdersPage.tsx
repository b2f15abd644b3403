// Orders of the FIX door: what is open, the budgets that bind it, what was refused, and whose orders are stopped.
import { type FormEvent, type ReactNode, useMemo, useState } from "react";
import { api } from "../api/client";
import type { FixKill, FixOrder, FixSession, Me, Node } from "../api/types";
import { useLoaded, usePageLoaded } from "../api/use";
import "../fix/fix.css";
import { groupedDecimal } from "../money/money";
import { Bar, Card, Empty, Figure, Loading, ProblemNote } from "../ui/parts";
import { count } from "../ui/numbers";
import { dayAndSecond } from "../ui/time";
import { addressOf, follow, go } from "../url/router";
import { KillDialog } from "./KillDialog";
import { type Ask, type Listed, BUDGETS_MOST, askOf, listOrders, searchOf } from "./list";

const POLL_MS = 5_000;

async function load(signal: AbortSignal) {
  const [{ sessions }, { kills }, node] = await Promise.all([
    api.fixSessions(signal),
    api.fixKills(signal),
    api.node(signal),
  ]);
  return { sessions, kills, node };
}

export default function OrdersPage({ me, search }: { me: Me | null; search: string }) {
  const { value, problem, again } = usePageLoaded("orders", load, POLL_MS);
  const [asked, setAsked] = useState<{ stopped: FixKill | null } | null>(null);
  const may = me?.role === "operate";
  const clients = value?.sessions.filter(({ kind }) => kind === "client") ?? [];
  return (
    <main className="page">
      <h1>Orders</h1>
      {problem !== null && <ProblemNote problem={problem} again={again} />}
      {value === null && problem === null && <Loading what="orders" />}
      {value?.sessions.length === 0 && (
        <Empty title="The FIX door is off">
          <p>
            Orders come over FIX sessions, and none is configured. <a href="/docs/fix.md">The FIX door</a>
          </p>
        </Empty>
      )}
      {value !== null && value.sessions.length > 0 && (
        <>
          <Tiles node={value.node} kills={value.kills} />
          <Kills kills={value.kills} ask={may ? (stopped) => setAsked({ stopped }) : null} />
          <Orders search={search} clients={clients} />
          <Refusals node={value.node} />
        </>
      )}
      {asked !== null && (
        <KillDialog
          {...asked}
          sessions={clients.map(({ name }) => name)}
          close={() => setAsked(null)}
          done={() => {
            setAsked(null);
            again();
          }}
        />
      )}
    </main>
  );
}

const COUNTED = "doors.fix.";

const counted = (node: Node, name: string): number =>
  node.counters.find(({ counter }) => counter === COUNTED + name)?.count ?? 0;

/** Reasons and counts of refused orders since the start, the most frequent first. */
function refusalsOf({ counters }: Node): [string, number][] {
  const found = counters.flatMap(({ counter, count }): [string, number][] => {
    const reason = counter.startsWith(`${COUNTED}refused_`) ? counter.slice(COUNTED.length + 8) : "logons";
    // Those are no orders.
    return reason === "logons" || count === 0 ? [] : [[reason.replaceAll("_", " "), count]];
  });
  return found.sort(([, a], [, b]) => b - a);
}

function Tiles({ node, kills }: { node: Node; kills: readonly FixKill[] }) {
  const refused = refusalsOf(node).reduce((sum, [, count]) => sum + count, 0);
  const lost = counted(node, "cancels_refused");
  return (
    <dl className="figures-row">
      <Figure
        name="Stopped"
        value={count(kills.length)}
        tone={kills.length === 0 ? "plain" : "bad"}
        note="sessions, accounts and firms"
      />
      <Figure
        name="Refused"
        value={count(refused)}
        note="orders and replaces since the start, below by reason"
      />
      <Figure
        name="Cancels of the gate"
        value={count(counted(node, "cancels"))}
        tone={lost === 0 ? "plain" : "warn"}
        note={`of orders that are stopped or whose client is away; ${count(lost)} refused by a venue`}
      />
    </dl>
  );
}

function Table({ label, heads, children }: { label: string; heads: readonly string[]; children: ReactNode }) {
  return (
    <div className="scroll-wide" tabIndex={0} role="region" aria-label={`${label}, as a table`}>
      <table className="table">
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head} className={head.startsWith(">") ? "end" : undefined}>
                {head.replace(">", "")}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

const End = ({ of }: { of: string | null }) => <td className="end figures">{groupedDecimal(of)}</td>;

interface KillsProps {
  kills: readonly FixKill[];
  /** Null for who may only look. */
  ask: ((stopped: FixKill | null) => void) | null;
}

function Kills({ kills, ask }: KillsProps) {
  return (
    <Card
      title="Stopped orders"
      note={kills.length === 0 ? "none" : "new ones and replaces are refused, open ones are cancelled"}
      actions={
        ask !== null && (
          <button type="button" className="button" onClick={() => ask(null)}>
            Stop orders…
          </button>
        )
      }
      wide
    >
      {kills.length > 0 && (
        <Table label="Stopped orders" heads={["Whose", "Reason", "By", "Since", "Sessions", "What to do"]}>
          {kills.map((kill) => (
            <tr key={`${kill.scope} ${kill.name}`}>
              <th scope="row">
                {kill.scope} <strong>{kill.name}</strong>
              </th>
              <td className="wrap">{kill.reason}</td>
              <td>{kill.who ?? "local"}</td>
              <td>
                {dayAndSecond(kill.at_ms, "UTC")}
                {!kill.sealed && <span className="quiet fix-ids">▲ a restart does not know of it yet</span>}
              </td>
              <td>
                {kill.sessions.join(", ") || (kill.scope === "account" ? "–" : "▲ none has this name now")}
              </td>
              <td>
                {ask !== null && (
                  <button
                    type="button"
                    className="button button-quiet"
                    aria-label={`Let pass… ${kill.scope} ${kill.name}`}
                    onClick={() => ask(kill)}
                  >
                    Let pass…
                  </button>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  );
}

function Orders({ search, clients }: { search: string; clients: readonly FixSession[] }) {
  const ask = useMemo(() => askOf(search), [search]);
  const [place, setPlace] = useState({ search, after: "" });
  const after = place.search === search ? place.after : "";
  const load = (signal: AbortSignal) => listOrders(ask, after, signal);
  const { value, problem, again } = useLoaded(`orders ${searchOf(ask)} ${after}`, load, POLL_MS);
  const steps = [
    ["First orders", after === "" ? null : ""],
    ["More orders", value?.next ?? null],
  ] as const;
  const said = value === null ? "" : `${count(value.open.length)} of ${count(value.read)} that were read`;
  return (
    <>
      {value !== null && value.budgets.length > 0 && <Budgets listed={value} />}
      <Card
        title="Open orders"
        note={said}
        actions={steps.map(
          ([title, to]) =>
            to !== null && (
              <button
                key={title}
                type="button"
                className="button"
                onClick={() => setPlace({ search, after: to })}
              >
                {title}
              </button>
            ),
        )}
        wide
      >
        <Controls ask={ask} clients={clients} again={again} />
        {problem !== null && <ProblemNote problem={problem} again={again} />}
        {value === null && problem === null && <Loading what="open orders" />}
        {value?.open.length === 0 && (
          <p className="quiet">
            No order is open{value.next !== null && " among those that were read; there are more"}.
          </p>
        )}
        {value !== null && value.open.length > 0 && <Open orders={value.open} />}
      </Card>
    </>
  );
}

interface ControlsProps {
  ask: Ask;
  clients: readonly FixSession[];
  again: () => void;
}

function Controls({ ask, clients, again }: ControlsProps) {
  const [budget, setBudget] = useState(ask.budget);
  const set = (more: Partial<Ask>) => go(addressOf("orders") + searchOf({ ...ask, ...more }), true);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (budget.trim() === ask.budget) again();
    else set({ budget: budget.trim() });
  };
  const names = clients.map(({ name }) => name);
  if (ask.session !== "" && !names.includes(ask.session)) names.push(ask.session);
  return (
    <form className="toolbar report-ask" onSubmit={submit}>
      <label className="field">
        <span className="hidden-text">Session</span>
        <select value={ask.session} onChange={(event) => set({ session: event.target.value })}>
          <option value="">All sessions</option>
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <label className="field">
        <span className="hidden-text">Budget, by id or handle</span>
        <input value={budget} placeholder="All budgets" onChange={(event) => setBudget(event.target.value)} />
      </label>
      <button type="submit" className="button">
        Show
      </button>
    </form>
  );
}

function Budgets({ listed: { budgets, bound } }: { listed: Listed }) {
  const more = bound > BUDGETS_MOST ? `; the first ${count(BUDGETS_MOST)} of ${count(bound)}` : "";
  return (
    <Card title="Limits" note={`budgets that bind these orders, and what else they pay for${more}`} wide>
      <Table
        label="Limits"
        heads={["Budget", "Unit", ">Limit", ">Held", ">Booked", ">Left", "Held or booked"]}
      >
        {budgets.map(({ id, name, unit, limit, held, spent, available }) => {
          const share = (Number(held) + Number(spent)) / Number(limit);
          return (
            <tr key={id}>
              <th scope="row">
                <a href={addressOf("campaign", id)} onClick={follow}>
                  {name || id}
                </a>{" "}
                <span className="quiet">{id}</span>
              </th>
              <td>{unit}</td>
              <End of={limit} />
              <End of={held} />
              <End of={spent} />
              <End of={available} />
              <td>
                <Bar
                  part={share}
                  whole={1}
                  tone={share > 1 ? "bad" : share > 0.9 ? "warn" : "plain"}
                  label={
                    Number.isFinite(share) ? `${Math.floor(share * 100)} % of the limit` : "no limit left"
                  }
                />
              </td>
            </tr>
          );
        })}
      </Table>
    </Card>
  );
}

const SIDES: Readonly<Record<string, string>> = { 1: "buy", 2: "sell", 5: "sell short", 6: "short exempt" };

/** What each budget that binds an order has of it, a line for each. */
function Legs({ of }: { of: FixOrder["hold"] }) {
  return (
    <td className="end figures">
      {of === null
        ? "–"
        : Object.entries(of).map(([id, amount]) => (
            <div key={id}>
              {groupedDecimal(amount)} <span className="quiet">in {id}</span>
            </div>
          ))}
    </td>
  );
}

const HEADS = ["Order", "Session", "Account", "Symbol", "Side", ">Quantity", ">Price", ">Executed", ">Open"];

function Open({ orders }: { orders: readonly FixOrder[] }) {
  return (
    <Table label="Open orders" heads={[...HEADS, "State", ">Held", ">Booked"]}>
      {orders.map((order) => (
        <tr key={`${order.session} ${order.venue} ${order.cl_ord_id}`}>
          <th scope="row">
            {order.cl_ord_id}
            <span className="quiet fix-ids">{order.order_id ?? "no OrderID"}</span>
          </th>
          <td>
            {order.session}
            <span className="quiet fix-ids">→ {order.venue}</span>
          </td>
          <td>{order.account ?? "–"}</td>
          <td>{order.symbol ?? "–"}</td>
          <td>{order.side === null ? "–" : (SIDES[order.side] ?? order.side)}</td>
          <End of={order.quantity} />
          <End of={order.price} />
          <End of={order.cum} />
          <End of={order.leaves} />
          <td>{order.state}</td>
          <Legs of={order.hold} />
          <Legs of={order.booked} />
        </tr>
      ))}
    </Table>
  );
}

function Refusals({ node }: { node: Node }) {
  const found = refusalsOf(node);
  return (
    <Card
      title="Refusals by reason"
      note={found.length === 0 ? "none since the start" : "since the start of the node"}
      actions={<a href="/docs/fix.md#orders-and-budgets">What is refused</a>}
      wide
    >
      {found.length > 0 && (
        <Table label="Refusals by reason" heads={["Reason", ">Messages"]}>
          {found.map(([reason, times]) => (
            <tr key={reason}>
              <th scope="row">{reason}</th>
              <td className="end figures">{count(times)}</td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  );
}
