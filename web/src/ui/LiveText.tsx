// A text that is written with the figures beside it, in the same picture: React is not asked.
import { useLayoutEffect, useRef } from "react";

interface Props {
  /** Calls back whenever there is something to draw; returns how to stop. */
  on: (draw: () => void) => () => void;
  text: () => string;
  title?: () => string;
  className?: string;
}

export function LiveText({ on, text, title, className }: Props) {
  const ref = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    const element = ref.current!;
    const write = () => {
      const now = text();
      if (element.textContent !== now) element.textContent = now;
      const about = title?.();
      if (about !== undefined && element.title !== about) element.title = about;
    };
    write();
    return on(write);
  });
  return <span ref={ref} className={className} />;
}
