// What a budget is configured as: its line of the budgets file, whole, and what was changed here on top of it.
import type { ReactNode } from "react";
import type { Budget } from "../api/types";
import { words } from "../live/codes";
import { Card } from "../ui/parts";
import { count } from "../ui/numbers";
import { Exactly, parsed, visible } from "./text";

/** Longer texts, and lists of objects of more than one, are folded. */
const FOLD_CHARS = 160;
/** Deeper is shown as JSON: nobody reads further. */
const DEPTH_MAX = 6;

const isFields = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Exactly);

/** In one line: "12.50", "DEU, AUT", "true". */
function plain(value: unknown): string | null {
  if (value instanceof Exactly) return value.text;
  if (typeof value === "string") return visible(value);
  if (typeof value === "boolean" || value === null || value === undefined)
    return value == null ? "none" : String(value);
  if (!Array.isArray(value)) return null;
  const all = value.map(plain);
  return all.every((one) => one !== null) && !value.some(Array.isArray) ? all.join(", ") : null;
}

/** What a folded creative is called. */
function nameOf(value: Record<string, unknown>, number: number): string {
  const said = ["id", "name", "format", "size", "sizes"].flatMap((field) => {
    const text = Object.hasOwn(value, field) ? plain(value[field]) : null;
    return text === null ? [] : [`${words(field)} ${text.slice(0, FOLD_CHARS)}`];
  });
  return `${number + 1}: ${said.join(", ") || "…"}`;
}

function Value({ value, depth }: { value: unknown; depth: number }): ReactNode {
  const text = plain(value);
  if (text !== null && text.length <= FOLD_CHARS) return text;
  if (text !== null)
    return (
      <details>
        <summary>
          {text.slice(0, FOLD_CHARS / 2)}… <span className="quiet">{count(text.length)} characters</span>
        </summary>
        <pre className="line-text">{text}</pre>
      </details>
    );
  if (depth >= DEPTH_MAX) return <pre className="line-text">{visible(JSON.stringify(value))}</pre>;
  if (Array.isArray(value))
    return (
      <ol className="line-list">
        {value.map((one: unknown, i) => (
          <li key={i}>
            {isFields(one) ? (
              <details>
                <summary>{nameOf(one, i)}</summary>
                <Fields fields={one} depth={depth + 1} />
              </details>
            ) : (
              <Value value={one} depth={depth + 1} />
            )}
          </li>
        ))}
      </ol>
    );
  return <Fields fields={value as Record<string, unknown>} depth={depth + 1} />;
}

/** Nested below depth 0 as a list, else as a table. */
function Fields({ fields, depth }: { fields: Record<string, unknown>; depth: number }) {
  return (
    <dl className="line-fields">
      {Object.entries(fields).map(([field, value]) => (
        <div key={field}>
          <dt>{visible(words(field))}</dt>
          <dd>
            <Value value={value} depth={depth} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

const shown = (value: unknown): string => plain(value) ?? visible(JSON.stringify(value));

function Table({ fields, changed }: { fields: Record<string, unknown>; changed: Budget["config"] }) {
  return (
    <table className="table table-line">
      <thead className="hidden-text">
        <tr>
          <th>Field</th>
          <th>Value</th>
        </tr>
      </thead>
      <tbody>
        {Object.entries(fields).map(([field, value]) => (
          <tr key={field}>
            <th scope="row">{visible(words(field))}</th>
            <td className="wrap">
              {Object.hasOwn(changed, field) ? (
                <>
                  <del>{shown(value)}</del> <ins>{shown(changed[field])}</ins>{" "}
                  <span className="flag">changed here</span>
                </>
              ) : (
                <Value value={value} depth={0} />
              )}
            </td>
          </tr>
        ))}
        {Object.entries(changed)
          .filter(([field]) => !Object.hasOwn(fields, field))
          .map(([field, value]) => (
            <tr key={field}>
              <th scope="row">{visible(words(field))}</th>
              <td className="wrap">
                <ins>{shown(value)}</ins> <span className="flag">added here</span>
              </td>
            </tr>
          ))}
      </tbody>
    </table>
  );
}

export function Configuration({ budget: { config, file } }: { budget: Budget }) {
  // A node of an earlier release does not say it.
  if (file === null || file === undefined)
    return (
      <Card title="Configuration" note="it has no line of its own in the budgets file" wide>
        <Table fields={config} changed={{}} />
      </Card>
    );
  const line = file.text === null ? undefined : parsed(file.text);
  const changed = Object.fromEntries(file.changed.map(({ field, in_force }) => [field, in_force]));
  const note = `line ${count(file.line)} of the budgets file${file.changed.length === 0 ? "" : ", with what was changed here"}`;
  return (
    <Card title="Configuration" note={note} wide>
      {file.problem !== null && (
        <p className="answer" role="note">
          The line cannot be shown whole: {visible(file.problem)}. Below is what holds, without bid, targeting
          and creatives.
        </p>
      )}
      {isFields(line) ? <Table fields={line} changed={changed} /> : <Table fields={config} changed={{}} />}
      {file.text !== null && (
        <details className="line-raw">
          <summary>The line as it stands</summary>
          <pre className="line-text">{visible(file.text)}</pre>
        </details>
      )}
    </Card>
  );
}
