// On every page while the budgets file is refused, or no set of budgets is in force: figures alone look as if all were well.
import { api } from "../api/client";
import type { BudgetsFile } from "../api/types";
import { useLoaded } from "../api/use";
import { count } from "./numbers";
import { dayAndTime } from "./time";

const POLL_MS = 5_000;

/** What it means for spend; null: all is well. */
export function fileTrouble({ in_force, refused_ms }: BudgetsFile): string | null {
  if (in_force)
    return refused_ms === null ? null : "The budgets file was refused; the budgets before it stay.";
  return refused_ms === null
    ? "No budget is in force: there is no budgets file. Every ask is answered with busy."
    : "No budget is in force: the budgets file was refused. Every ask is answered with busy.";
}

export function FileBar() {
  const { value: node } = useLoaded("budgets-file", api.node, POLL_MS);
  const file = node?.budgets_file ?? null;
  const trouble = file === null ? null : fileTrouble(file);
  if (file === null || trouble === null) return null;
  const [first] = file.errors;
  return (
    <div className="file-bar" role="alert">
      <span aria-hidden="true">▲</span>
      <p>
        <strong>{trouble}</strong>
        {first !== undefined && <code>{first}</code>}
        <span className="figures">
          {file.more_errors + file.errors.length > 1 &&
            `and ${count(file.more_errors + file.errors.length - 1)} more · `}
          {file.refused_ms !== null && `refused ${dayAndTime(file.refused_ms, "UTC")}`}
        </span>
      </p>
    </div>
  );
}
