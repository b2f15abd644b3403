import { useState } from "react";
import { Menu } from "../ui/parts";
import { addressOf, go } from "../url/router";
import { COMMON, type NamedView, keepViews, ownViews, withView } from "./views";

/** `text` is the present view. Opening one goes through the address, so Back leads out of it again. */
export function ViewMenu({ text }: { text: string }) {
  const [own, setOwn] = useState(ownViews);
  const [name, setName] = useState("");
  const change = (views: NamedView[]) => {
    keepViews(views);
    setOwn(views);
  };
  const save = () => {
    change(withView(own, { name: name.trim(), text }));
    setName("");
  };
  return (
    <Menu label="Views">
      <ul className="view-list" aria-label="Views">
        {COMMON.map((view) => (
          <Item key={view.name} view={view} text={text} />
        ))}
      </ul>
      {own.length > 0 && (
        <ul className="view-list" aria-label="Your views">
          {own.map((view) => (
            <Item
              key={view.name}
              view={view}
              text={text}
              forget={() => change(own.filter((one) => one !== view))}
            />
          ))}
        </ul>
      )}
      <form
        className="field-line"
        onSubmit={(event) => {
          event.preventDefault();
          if (name.trim() !== "") save();
        }}
      >
        <label className="field">
          Save this view as
          <input value={name} maxLength={60} onChange={(event) => setName(event.target.value)} />
        </label>
        <button type="submit" className="button" disabled={name.trim() === ""}>
          Save
        </button>
      </form>
      <p className="quiet">The address holds the whole view: send it, and others see the same.</p>
    </Menu>
  );
}

function Item({ view, text, forget }: { view: NamedView; text: string; forget?: () => void }) {
  return (
    <li>
      <button
        type="button"
        className="view-item"
        aria-current={view.text === text ? "true" : undefined}
        onClick={() => go(addressOf("campaigns") + (view.text === "" ? "" : `?${view.text}`))}
      >
        {view.name}
      </button>
      {forget !== undefined && (
        <button
          type="button"
          className="button button-quiet"
          aria-label={`forget ${view.name}`}
          onClick={forget}
        >
          ✕
        </button>
      )}
    </li>
  );
}
