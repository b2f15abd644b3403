// The vault: sealed or not, its keys with their versions, and how fast they are used. The node's answer has no secret in it.
import { useEffect, useRef, useState } from "react";
import { api } from "../api/client";
import type { Vault, VaultKey } from "../api/types";
import { usePageLoaded } from "../api/use";
import { Bar, Card, Empty, Figure, Loading, ProblemNote } from "../ui/parts";
import { count, short } from "../ui/numbers";
import { dayAndTime, span } from "../ui/time";
import "./vault.css";
import { NO_RATES, type Rates, type Seen, ratesOf } from "./rates";

const POLL_MS = 2_000;
const NEAR_FULL = 0.8;

function useRates(vault: Vault | null): Rates {
  const seen = useRef<Seen | null>(null);
  const [rates, setRates] = useState(NO_RATES);
  useEffect(() => {
    if (vault === null) return;
    const now = { vault, atMs: performance.now() };
    if (seen.current !== null) setRates(ratesOf(seen.current, now));
    seen.current = now;
  }, [vault]);
  return rates;
}

export default function VaultPage() {
  const [after, setAfter] = useState("");
  const load = (signal: AbortSignal) => api.vault(after, signal);
  const { value: vault, problem, again } = usePageLoaded(`vault ${after}`, load, POLL_MS);
  const rates = useRates(vault);
  return (
    <main className="page">
      <header className="page-head">
        <div>
          <h1>Vault</h1>
          {vault !== null && vault.listen !== null && (
            <p className="quiet figures">keys door at {vault.listen}</p>
          )}
        </div>
      </header>
      {problem !== null && <ProblemNote problem={problem} again={again} />}
      {vault === null && problem === null && <Loading what="the vault" />}
      {vault !== null && vault.listen === null && (
        <Empty title="The keys door is off">
          <p>
            Set <code>keys.listen</code>, and restart the node. <a href="/docs/vault.md">The vault</a>
          </p>
        </Empty>
      )}
      {vault !== null && vault.listen !== null && (
        <>
          <Tiles vault={vault} rates={rates} />
          <div className="cards">
            <Keys vault={vault} rates={rates} isFirst={after === ""} go={setAfter} />
          </div>
        </>
      )}
    </main>
  );
}

function Tiles({ vault, rates }: { vault: Vault; rates: Rates }) {
  const rate = (value: number | null) => (value === null ? "–" : short(value));
  return (
    <dl className="figures-row">
      <Figure
        name="State"
        value={vault.sealed ? "▲ sealed" : "✓ unsealed"}
        tone={vault.sealed ? "warn" : "good"}
        note={vault.sealed ? "calls about keys are answered 503" : "keys can be used"}
      />
      <Figure name="Keys" value={vault.sealed ? "–" : count(vault.count)} />
      <Figure
        name="Calls per second"
        value={rate(rates.calls)}
        note={`${count(vault.calls)} since the start`}
      />
      <Figure
        name="Items per second"
        value={rate(rates.items)}
        note={`${count(vault.items)} since the start, ${count(vault.items_failed)} failed`}
      />
      <Figure name="Denied" value={count(vault.denied)} note="requests answered 403 since the start" />
    </dl>
  );
}

function Keys({
  vault,
  rates,
  isFirst,
  go,
}: {
  vault: Vault;
  rates: Rates;
  isFirst: boolean;
  go: (after: string) => void;
}) {
  if (vault.sealed)
    return (
      <Empty title="The keys are sealed">
        <p>
          Nothing is known of them until somebody unseals the node: <code>weir vault unseal</code>.{" "}
          <a href="/docs/vault.md#sealed-and-unsealed">Sealed and unsealed</a>
        </p>
      </Empty>
    );
  if (vault.count === 0)
    return (
      <Empty title="There are no keys yet">
        <p>
          A client of Transit makes one. <a href="/docs/vault.md#begin">Begin</a>
        </p>
      </Empty>
    );
  const { next } = vault;
  return (
    <Card title="Keys" note="by name; messages are the latest version's" wide>
      <div className="scroll-wide" tabIndex={0} role="region" aria-label="Keys, as a table">
        <table className="table table-keys">
          <thead>
            <tr>
              <th>Key</th>
              <th>Type</th>
              <th className="end">Version</th>
              <th className="end">Opens from</th>
              <th className="end">Sealed /s</th>
              <th className="end">Messages</th>
              <th className="bar-cell">
                <span className="hidden-text">Of what it may seal</span>
              </th>
              <th>Rotated, UTC</th>
              <th>By itself</th>
            </tr>
          </thead>
          <tbody>
            {vault.keys.map((key) => (
              <Row key={key.name} of={key} perSecond={rates.messages.get(key.name) ?? null} />
            ))}
          </tbody>
        </table>
      </div>
      <p className="quiet">
        {!isFirst && (
          <button type="button" className="button" onClick={() => go("")}>
            First keys
          </button>
        )}{" "}
        {next !== null && (
          <button type="button" className="button" onClick={() => go(next)}>
            More keys
          </button>
        )}
      </p>
    </Card>
  );
}

/** What its settings allow beyond use. */
const allows = ({ exportable, deletion_allowed }: VaultKey): string =>
  [exportable ? "exportable" : "", deletion_allowed ? "may be deleted" : ""]
    .filter((word) => word !== "")
    .join(" · ");

/** A period of whole days has no hours. */
const wholeSpan = (ms: number): string => span(ms).replace(/ 0 [hm]$/, "");

function Row({ of: key, perSecond }: { of: VaultKey; perSecond: number | null }) {
  const { messages, messages_max: max } = key;
  return (
    <tr>
      <th scope="row">
        {key.name}
        {key.soft_deleted && <span className="vault-allows">▲ soft-deleted: calls with it are refused</span>}
        {allows(key) !== "" && <span className="quiet vault-allows">{allows(key)}</span>}
      </th>
      <td>{key.type}</td>
      <td className="end">
        {count(key.latest_version)}
        {key.versions > 1 && <span className="quiet"> of {count(key.versions)} kept</span>}
      </td>
      <td className="end">{count(key.min_decryption_version)}</td>
      <td className="end">{perSecond === null ? "–" : short(perSecond)}</td>
      <td className="end">{messages === null ? "–" : count(messages)}</td>
      <td className="bar-cell">
        {messages !== null && max !== null && (
          <Bar
            part={messages}
            whole={max}
            label={`messages of ${key.name}, of ${count(max)}`}
            tone={messages > max * NEAR_FULL ? "bad" : "plain"}
          />
        )}
      </td>
      <td>{dayAndTime(key.rotated_ms, "UTC").replace(" UTC", "")}</td>
      <td>{key.rotates_every_s === null ? "never" : `every ${wholeSpan(key.rotates_every_s * 1_000)}`}</td>
    </tr>
  );
}
