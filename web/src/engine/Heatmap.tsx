import { useEffect, useRef } from "react";
import { onTheme, token } from "../ui/theme";
import { micros } from "../ui/numbers";
import { HEAT_COLUMNS, HEAT_US, ink } from "./heat";

const ROW = 11;
const COLUMN = 4;

function paint(canvas: HTMLCanvasElement, columns: readonly number[][]): void {
  const context = canvas.getContext("2d");
  if (context === null) return;
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = token("--series-1");
  columns.forEach((column, x) =>
    column.forEach((share, row) => {
      context.globalAlpha = ink(share);
      context.fillRect(
        (HEAT_COLUMNS - columns.length + x) * COLUMN,
        (HEAT_US.length - row) * ROW,
        COLUMN,
        ROW - 1,
      );
    }),
  );
  context.globalAlpha = 1;
}

/** Time to the right, slower to the top, darker is more. */
export function Heatmap({ columns, label }: { columns: readonly number[][]; label: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const draw = () => canvas.current !== null && paint(canvas.current, columns);
    draw();
    return onTheme(draw);
  }, [columns]);
  return (
    <div className="heat">
      <ol aria-hidden="true">
        {[...HEAT_US]
          .reverse()
          .filter((_, i) => i % 3 === 0)
          .map((us) => (
            <li key={us}>{micros(us)}</li>
          ))}
      </ol>
      <canvas
        ref={canvas}
        width={HEAT_COLUMNS * COLUMN}
        height={(HEAT_US.length + 1) * ROW}
        role="img"
        aria-label={label}
      />
    </div>
  );
}
