// What a report is asked for: it stands in the address of the page, so that a report is a link.

/** What may stand in a row, in the order of the columns. */
export const NAMES = ["campaign", "exchange", "place", "creative", "country"] as const;
export const TIMES = ["all", "day", "hour"] as const;
/** Days back from now; 0: all that is kept. */
export const DAYS = ["1", "7", "30", "0"] as const;

export type Name = (typeof NAMES)[number];
export type Time = (typeof TIMES)[number];
export type Days = (typeof DAYS)[number];

export interface Ask {
  names: readonly Name[];
  time: Time;
  days: Days;
  /** Ids or handles, separated by commas; empty: all. */
  budgets: string;
}

const one = <T extends string>(known: readonly T[], text: string | null, other: T): T =>
  known.find((word) => word === text) ?? other;

/** What is not understood is as if it were not there. */
export function askOf(search: string): Ask {
  const said = new URLSearchParams(search);
  const by = (said.get("by") ?? "campaign").split(",");
  return {
    names: NAMES.filter((name) => by.includes(name)),
    time: one(TIMES, by.find((word) => word === "day" || word === "hour") ?? null, "all"),
    days: one(DAYS, said.get("days"), "7"),
    budgets: said.get("budgets") ?? "",
  };
}

export const columnsOf = ({ names, time }: Ask): string[] => [...names, ...(time === "all" ? [] : [time])];

/** The address of the page. */
export const searchOf = (ask: Ask): string =>
  `?by=${columnsOf(ask).join(",")}&days=${ask.days}` +
  (ask.budgets === "" ? "" : `&budgets=${encodeURIComponent(ask.budgets)}`);

const DAY_MS = 86_400_000;

/** The query of the node's call. */
export function queryOf(ask: Ask, nowMs: number): string {
  const from = ask.days === "0" ? "" : `&from_ms=${nowMs - Number(ask.days) * DAY_MS}`;
  const budgets = ask.budgets.replaceAll(/\s/g, "");
  return (
    `?by=${columnsOf(ask).join(",")}${from}` +
    (budgets === "" ? "" : `&budgets=${encodeURIComponent(budgets)}`)
  );
}
