// Calls of docs/api.md, section 3. An answer that is no success is thrown as an ApiError with the node's own words.
import { budgetInBase, bulkInBase, historyInBase } from "./amounts";
import type {
  AuditRecord,
  BoundBudget,
  Budget,
  Bulk,
  BulkAnswer,
  Changes,
  CostHistory,
  Costs,
  FixKill,
  FixMessage,
  FixOrder,
  FixSessions,
  History,
  Me,
  NewBudget,
  Node,
  Problem,
  Refusals,
  Report,
  Vault,
} from "./types";

const TOKEN = "weir.token";

/** Of a report: some 200,000 rows. */
const SHOWN_BYTES_MOST = 32_000_000;

/** Told by any call that the node does not know the token, or knows it no longer. */
export const SIGNED_OUT = "weir:signed-out";

/** Kept for this tab only. */
export const token = (): string | null => sessionStorage.getItem(TOKEN);
export const setToken = (text: string): void => sessionStorage.setItem(TOKEN, text);

export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title);
  }
}

interface Call {
  method?: "DELETE" | "GET" | "PATCH" | "POST" | "PUT";
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** What to tell people of an error. */
export const problemOf = (error: unknown): Problem =>
  error instanceof ApiError
    ? error.problem
    : { type: "about:blank", title: "an error of this page", status: 0, detail: String(error) };

async function answeredProblem(response: Response): Promise<Problem> {
  const plain: Problem = {
    type: "about:blank",
    title: response.statusText,
    status: response.status,
    detail: `the node answered ${response.status}`,
  };
  if (!(response.headers.get("content-type") ?? "").includes("json")) return plain;
  return { ...plain, ...((await response.json()) as Partial<Problem>) };
}

async function call(path: string, { method = "GET", body, headers = {}, signal }: Call): Promise<Response> {
  const known = token();
  const all = {
    ...headers,
    ...(known === null ? {} : { Authorization: `Bearer ${known}` }),
    ...(body === undefined ? {} : { "Content-Type": "application/json" }),
  };
  const request: RequestInit = {
    method,
    headers: all,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
  };
  const response = await fetch(`/v1${path}`, request).catch((error: unknown) => {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError({
      type: "about:blank",
      title: "no answer",
      status: 0,
      detail: "the node does not answer",
    });
  });
  if (response.status === 401) window.dispatchEvent(new Event(SIGNED_OUT));
  if (!response.ok) throw new ApiError(await answeredProblem(response));
  return response;
}

const read = async <T>(path: string, signal?: AbortSignal): Promise<T> =>
  (await (await call(path, signal === undefined ? {} : { signal })).json()) as T;
const send = async <T>(path: string, body: unknown, headers: Record<string, string> = {}): Promise<T> =>
  (await (await call(path, { method: "POST", body, headers })).json()) as T;

const sendBulk = async (path: string, body: unknown, headers: Record<string, string> = {}) =>
  bulkInBase(await send<BulkAnswer>(path, body, headers));

export const newKey = (): string => crypto.randomUUID();

export const api = {
  me: (signal?: AbortSignal) => read<Me>("/me", signal),
  node: (signal?: AbortSignal) => read<Node>("/node", signal),
  costs: (signal?: AbortSignal) => read<Costs>("/costs", signal),
  costHistory: (signal?: AbortSignal) => read<CostHistory>("/costs/history", signal),
  vault: (after: string, signal?: AbortSignal) =>
    read<Vault>(after === "" ? "/vault" : `/vault?after=${encodeURIComponent(after)}`, signal),
  async history(id: string, fromMs: number, toMs: number, signal?: AbortSignal): Promise<History> {
    const path = `/budgets/${id}/history?from_ms=${Math.round(fromMs)}&to_ms=${Math.round(toMs)}`;
    return historyInBase(await read<History>(path, signal));
  },
  /** `query` of docs/api.md, section 3.11. */
  async report(query: string, signal?: AbortSignal): Promise<Report> {
    const response = await call(`/report${query}`, signal === undefined ? {} : { signal });
    if (Number(response.headers.get("content-length")) > SHOWN_BYTES_MOST) {
      void response.body?.cancel();
      throw new ApiError({
        type: "about:blank",
        title: "too long to be shown",
        status: 0,
        detail: "ask for less time, for some budgets or by less, or take it with weir report --format csv",
      });
    }
    return (await response.json()) as Report;
  },
  reportCsv: async (query: string): Promise<Blob> => (await call(`/report.csv${query}`, {})).blob(),
  refusals: (id: string, signal?: AbortSignal) => read<Refusals>(`/budgets/${id}/refusals`, signal),
  audit: (query: string, signal?: AbortSignal) =>
    read<{ records: AuditRecord[]; next: string | null }>(`/audit${query}`, signal),
  record: (record: string, signal?: AbortSignal) => read<AuditRecord>(`/audit/${record}`, signal),
  /** By its id, or by its handle. */
  async budget(name: string, signal?: AbortSignal): Promise<{ budget: Budget; etag: string }> {
    const path = `/budgets/${encodeURIComponent(name)}`;
    const response = await call(path, signal === undefined ? {} : { signal });
    return {
      budget: budgetInBase((await response.json()) as Budget),
      etag: response.headers.get("etag") ?? "",
    };
  },
  /** `large`: limits may become more than a hundred times as large, or go. */
  async patch(id: string, etag: string, changes: Changes, why: string, large: boolean): Promise<Budget> {
    const response = await call(`/budgets/${id}`, {
      method: "PATCH",
      body: { changes, why, ...(large ? { confirm_large: true } : {}) },
      headers: { "If-Match": etag },
    });
    return budgetInBase((await response.json()) as Budget);
  },
  async create(budget: NewBudget, why: string, key: string): Promise<{ budget: Budget; etag: string }> {
    const response = await call("/budgets", {
      method: "POST",
      body: { budget, why },
      headers: { "Idempotency-Key": key },
    });
    return {
      budget: budgetInBase((await response.json()) as Budget),
      etag: response.headers.get("etag") ?? "",
    };
  },
  bulk: (bulk: Bulk, key: string) => sendBulk("/bulk", bulk, bulk.dry_run ? {} : { "Idempotency-Key": key }),
  fixSessions: (signal?: AbortSignal) => read<FixSessions>("/fix/sessions", signal),
  fixMessages: (name: string, query: string, signal?: AbortSignal) =>
    read<{ messages: FixMessage[]; next: string | null }>(
      `/fix/sessions/${encodeURIComponent(name)}/messages?${query}`,
      signal,
    ),
  fixSequence: (name: string, body: { next_out: number; next_in: number; reason: string }) =>
    call(`/fix/sessions/${encodeURIComponent(name)}/sequence`, { method: "PUT", body }),
  fixAct: (name: string, act: string, body: { reason: string; from?: number; to?: number }) =>
    call(`/fix/sessions/${encodeURIComponent(name)}/${act}`, { method: "POST", body }),
  fixOrders: (query: string, signal?: AbortSignal) =>
    read<{ orders: FixOrder[]; next: string | null }>(`/fix/orders?${query}`, signal),
  fixKills: (signal?: AbortSignal) => read<{ kills: FixKill[] }>("/fix/kill", signal),
  fixKill: (body: { scope: FixKill["scope"]; name: string; reason: string }, stops: boolean) =>
    call("/fix/kill", { method: stops ? "POST" : "DELETE", body }),
  /** At most a hundred. */
  budgetsOf: (ids: readonly string[], signal?: AbortSignal) =>
    read<{ budgets: BoundBudget[] }>(`/budgets?max=100&filter=id:${ids.join(",")}`, signal),
  dryUndo: (record: string) => sendBulk(`/audit/${record}/undo`, { why: "dry run", dry_run: true }),
  undo: (record: string, why: string, key: string) =>
    sendBulk(`/audit/${record}/undo`, { why }, { "Idempotency-Key": key }),
};
