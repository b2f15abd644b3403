import { COLUMNS } from "../grid/columns";
import { reordered } from "../grid/Grid";
import { GIVES_WAY, useRoom } from "../grid/narrow";
import { Menu } from "../ui/parts";
import { DEFAULT_COLUMNS, type ShownColumn } from "../url/view";

interface Props {
  columns: readonly ShownColumn[];
  change: (columns: readonly ShownColumn[]) => void;
}

const LEFT_OUT = COLUMNS.filter(({ key }) => GIVES_WAY.has(key))
  .map(({ title }) => title)
  .join(" and ");

/** Shown ones first, in their order: what can be moved is where it is seen. */
export function ColumnMenu({ columns, change }: Props) {
  const isNarrow = useRoom() === "narrow";
  const hidden = COLUMNS.filter((column) => !columns.some(({ key }) => key === column.key));
  return (
    <Menu label="Columns">
      <ul className="column-list">
        {columns.map((shown, i) => (
          <Shown key={shown.key} shown={shown} columns={columns} index={i} change={change} />
        ))}
        {hidden.map((column) => (
          <li key={column.key}>
            <label>
              <input
                type="checkbox"
                checked={false}
                onChange={() => change([...columns, { key: column.key, width: column.width, pinned: false }])}
              />{" "}
              {column.title}
            </label>
          </li>
        ))}
      </ul>
      {isNarrow && <p className="quiet">{LEFT_OUT} are left out in windows below 1 000 pixels.</p>}
      <button type="button" className="button" onClick={() => change(DEFAULT_COLUMNS)}>
        Reset columns
      </button>
    </Menu>
  );
}

function Shown({ shown, columns, index, change }: Props & { shown: ShownColumn; index: number }) {
  const column = COLUMNS.find(({ key }) => key === shown.key)!;
  const pin = () => change(columns.map((one) => (one === shown ? { ...one, pinned: !one.pinned } : one)));
  const shift = (step: number) => {
    const other = columns[index + step];
    if (other !== undefined) change(reordered(columns, shown.key, other.key));
  };
  return (
    <li>
      <label>
        <input
          type="checkbox"
          checked
          disabled={columns.length === 1}
          onChange={() => change(columns.filter((one) => one !== shown))}
        />{" "}
        {column.title}
      </label>
      <span>
        <button
          type="button"
          className="button button-quiet"
          aria-label={`${column.title} to the left`}
          disabled={index === 0}
          onClick={() => shift(-1)}
        >
          ←
        </button>
        <button
          type="button"
          className="button button-quiet"
          aria-label={`${column.title} to the right`}
          disabled={index === columns.length - 1}
          onClick={() => shift(1)}
        >
          →
        </button>
        {column.canvas !== true && (
          <button
            type="button"
            className="button button-quiet"
            aria-label={`${shown.pinned ? "unpin" : "pin"} ${column.title}`}
            onClick={pin}
          >
            {shown.pinned ? "unpin" : "pin"}
          </button>
        )}
      </span>
    </li>
  );
}
