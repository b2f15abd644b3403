// Small pieces that all pages share.
import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import type { Problem } from "../api/types";
import type { Status } from "../live/codes";
import { words } from "../live/codes";
import { STATUS_SHAPE } from "./status";

export function Chip({ status }: { status: Status }) {
  return (
    <span className="chip" data-status={status} title={words(status)}>
      <span className="chip-shape" aria-hidden="true">
        {STATUS_SHAPE[status]}
      </span>
      <span className="chip-word">{words(status)}</span>
    </span>
  );
}

export const Logo = () => (
  <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
    <path
      d="M3 8h26M3 16h8l5 10 5-10h8"
      fill="none"
      stroke="currentColor"
      strokeWidth="3"
      strokeLinecap="round"
      strokeLinejoin="round"
    />
  </svg>
);

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <svg viewBox="0 0 48 24" width="72" height="36" aria-hidden="true">
        <path
          d="M2 6h44M2 13h12l10 8 10-8h12"
          fill="none"
          stroke="currentColor"
          strokeWidth="1.6"
          strokeLinecap="round"
          strokeLinejoin="round"
        />
      </svg>
      <h2>{title}</h2>
      <div>{children}</div>
    </div>
  );
}

/** The shape of what comes, so that nothing jumps when it does. */
export function Loading({ what }: { what: string }) {
  return (
    <div className="loading" role="status">
      <span className="hidden-text">Loading {what}</span>
      <div className="skeleton" />
      <div className="skeleton skeleton-tall" />
      <div className="skeleton" />
    </div>
  );
}

export function ProblemNote({ problem, again }: { problem: Problem; again?: () => void }) {
  return (
    <div className="problem" role="alert">
      <span aria-hidden="true">▲</span>
      <div>
        <strong>{problem.title}:</strong> {problem.detail}
        {problem.expected != null && <span className="quiet"> Expected {problem.expected}.</span>}
      </div>
      {again !== undefined && (
        <button type="button" className="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Card({
  title,
  note,
  actions,
  children,
  wide = false,
}: {
  title: string;
  note?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  wide?: boolean;
}) {
  const id = useId();
  return (
    <section className={wide ? "card card-wide" : "card"} aria-labelledby={id}>
      <header className="card-head">
        <h2 id={id}>{title}</h2>
        {note !== undefined && <span className="quiet">{note}</span>}
        {actions !== undefined && <span className="card-actions">{actions}</span>}
      </header>
      {children}
    </section>
  );
}

export function Figure({
  name,
  value,
  note,
  tone = "plain",
}: {
  name: string;
  value: ReactNode;
  note?: ReactNode;
  tone?: "plain" | "good" | "warn" | "bad";
}) {
  return (
    <div className="figure" data-tone={tone}>
      <dt>{name}</dt>
      <dd>{value}</dd>
      {note !== undefined && <dd className="figure-note">{note}</dd>}
    </div>
  );
}

/** A bar of part over whole, with its words beside it. */
export function Bar({
  part,
  whole,
  tone = "plain",
  label,
}: {
  part: number;
  whole: number;
  tone?: "plain" | "warn" | "bad";
  label: string;
}) {
  const share = whole > 0 ? Math.min(1, Math.max(0, part / whole)) : 0;
  return (
    <span className="bar" data-tone={tone} role="img" aria-label={label}>
      <span style={{ transform: `scaleX(${share})` }} />
    </span>
  );
}

interface DialogProps {
  title: string;
  close: () => void;
  children: ReactNode;
  wide?: boolean;
}

/** The browser's own modal dialog: focus stays inside, Escape closes, focus goes back. */
export function Dialog({ title, close, children, wide = false }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    // showModal puts the focus on the first button, which closes: people come to fill in the first field.
    element?.querySelector<HTMLElement>("input, select, textarea")?.focus();
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      className={wide ? "dialog dialog-wide" : "dialog"}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
    >
      <header className="dialog-head">
        <h2 id={id}>{title}</h2>
        <button type="button" className="button button-quiet" aria-label="Close" onClick={close}>
          ✕
        </button>
      </header>
      {children}
    </dialog>
  );
}

/** A button that opens a panel below itself; a click elsewhere or Escape closes it. What is in it is made when it opens. */
export function Menu({ label, children, badge }: { label: ReactNode; children: ReactNode; badge?: string }) {
  const details = useRef<HTMLDetailsElement>(null);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const close = (event: Event) => {
      const open = details.current;
      if (open === null || !open.open) return;
      if (
        event instanceof KeyboardEvent
          ? event.key === "Escape"
          : !open.contains(event.target as globalThis.Node)
      )
        open.open = false;
    };
    document.addEventListener("pointerdown", close);
    document.addEventListener("keydown", close);
    return () => {
      document.removeEventListener("pointerdown", close);
      document.removeEventListener("keydown", close);
    };
  }, []);
  return (
    <details ref={details} className="menu" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="button">
        {label}
        {badge !== undefined && <span className="badge">{badge}</span>}
      </summary>
      {isOpen && <div className="menu-panel">{children}</div>}
    </details>
  );
}

export function Choice<T extends string>({
  label,
  word,
  value,
  options,
  choose,
}: {
  label: string;
  /** What is shown of the label. */
  word?: string;
  value: T;
  options: readonly [T, string, string][];
  choose: (value: T) => void;
}) {
  return (
    <div className="choice" role="group" aria-label={label}>
      {word !== undefined && (
        <span className="choice-word" aria-hidden="true">
          {word}
        </span>
      )}
      {options.map(([key, word, about]) => (
        <button
          key={key}
          type="button"
          aria-pressed={key === value}
          title={about}
          onClick={() => choose(key)}
        >
          {word}
        </button>
      ))}
    </div>
  );
}
