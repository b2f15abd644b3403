// A chart by uPlot, which is loaded when the first one is shown, with the same figures as a table.
import { useEffect, useId, useMemo, useRef, useState } from "react";
import type uPlot from "uplot";
import { firstShown, hasFigures, tickTexts } from "./axis";
import { onTheme, token } from "./theme";
import { dayAndTime } from "./time";

export interface Series {
  label: string;
  /** A design token, as "--series-1". */
  colour: string;
  values: (number | null)[];
  dashed?: boolean;
  filled?: boolean;
  stepped?: boolean;
}

interface Props {
  title: string;
  /** One sentence with the figure that matters, for those who do not see the curve. */
  summary: string;
  /** What is said in the place of an empty grid. */
  none: string;
  timesMs: number[];
  series: Series[];
  zone: string;
  format: (value: number) => string;
  height?: number;
  /** Two series, counted from 1, with the space between them tinted. */
  band?: [number, number];
}

const axis = (): uPlot.Axis => ({
  stroke: token("--quiet"),
  grid: { stroke: token("--line"), width: 1 },
  ticks: { stroke: token("--line"), width: 1, size: 4 },
  font: `11px ${token("--font")}`,
});

const [MINUTE_S, HOUR_S, DAY_S] = [60, 3_600, 86_400];
/** Seconds between the times of an axis: none below a minute, which the labels tell and history keeps. */
const TIME_STEPS_S = [
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE_S),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR_S),
  ...[1, 2, 5, 10, 30, 100, 365].map((days) => days * DAY_S),
];

const tint = (colour: string): string => `color-mix(in srgb, ${colour} 14%, transparent)`;

function lineOf(plot: typeof uPlot, { label, colour, dashed, filled, stepped }: Series): uPlot.Series {
  const paths = stepped === true ? plot.paths.stepped?.({ align: 1 }) : undefined;
  return {
    label,
    stroke: token(colour),
    width: 1.75,
    points: { show: false },
    ...(dashed === true ? { dash: [5, 4] } : {}),
    ...(filled === true ? { fill: tint(token(colour)) } : {}),
    ...(paths === undefined ? {} : { paths }),
  };
}

/** 24 hours, in the zone of the chart; the day where one begins. */
function clock(zone: string): (plot: uPlot, seconds: number[]) => string[] {
  const time = new Intl.DateTimeFormat("en-GB", {
    timeZone: zone,
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  });
  const day = new Intl.DateTimeFormat("en-GB", { timeZone: zone, day: "numeric", month: "short" });
  return (_, seconds) =>
    seconds.map((second, i) => {
      const text = time.format(second * 1000);
      return i === 0 || text === "00:00" ? `${text}\n${day.format(second * 1000)}` : text;
    });
}

function optionsOf(
  plot: typeof uPlot,
  { series, zone, height = 240, band }: Props,
  width: number,
): uPlot.Options {
  const text = (_: uPlot, values: number[], __: number, ___: number, step: number) => tickTexts(values, step);
  return {
    width,
    height,
    legend: { show: false },
    cursor: { points: { size: 6 }, y: false },
    padding: [8, 8, 0, 0],
    tzDate: (seconds) => plot.tzDate(new Date(seconds * 1000), zone),
    axes: [
      { ...axis(), values: clock(zone), space: 70, incrs: TIME_STEPS_S },
      { ...axis(), size: 64, values: text },
    ],
    series: [{}, ...series.map((one) => lineOf(plot, one))],
    ...(band === undefined
      ? {}
      : {
          bands: [band, [band[1], band[0]] as [number, number]].map((one) => ({
            series: one,
            fill: tint(token(series[0]!.colour)),
          })),
        }),
  };
}

const dataOf = ({ timesMs, series }: Props): uPlot.AlignedData => [
  timesMs.map((ms) => ms / 1000),
  ...series.map(({ values }) => values),
];

/** Names beside their lines, and under the pointer their figures. */
function Legend({ series, at, timesMs, zone, format }: Props & { at: number | null }) {
  return (
    <ul className="legend">
      {series.map(({ label, colour, dashed, values }) => (
        <li key={label}>
          <svg width="18" height="8" aria-hidden="true">
            <line
              x1="1"
              y1="4"
              x2="17"
              y2="4"
              stroke={`var(${colour})`}
              strokeWidth="2.5"
              {...(dashed === true ? { strokeDasharray: "5 3" } : {})}
            />
          </svg>
          {label}
          {at !== null && <strong>{cell(values[at], format)}</strong>}
        </li>
      ))}
      {at !== null && timesMs[at] !== undefined && <li className="quiet">{dayAndTime(timesMs[at], zone)}</li>}
    </ul>
  );
}

function Plot(props: Props & { point: (at: number | null) => void }) {
  const place = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  const chart = useRef<uPlot | null>(null);
  latest.current = props;
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    let gone = false;
    const build = async () => {
      const { default: plot } = await import("./plot");
      if (gone) return;
      chart.current?.destroy();
      const options = optionsOf(plot, latest.current, element.clientWidth);
      options.hooks = { setCursor: [(drawn) => latest.current.point(drawn.cursor.idx ?? null)] };
      chart.current = new plot(options, dataOf(latest.current), element);
    };
    const size = new ResizeObserver(() =>
      chart.current?.setSize({ width: element.clientWidth, height: latest.current.height ?? 240 }),
    );
    void build();
    size.observe(element);
    const forget = onTheme(() => void build());
    return () => {
      gone = true;
      forget();
      size.disconnect();
      chart.current?.destroy();
      chart.current = null;
    };
  }, [props.zone, props.series.length]);
  useEffect(() => chart.current?.setData(dataOf(latest.current)), [props.timesMs]);
  return <div ref={place} className="plot" aria-hidden="true" />;
}

const ROWS_MOST = 200;

function PlotTable({ title, timesMs, series, zone, format }: Props) {
  const from = Math.max(0, timesMs.length - ROWS_MOST);
  const time = new Intl.DateTimeFormat("en-GB", { timeZone: zone, dateStyle: "short", timeStyle: "short" });
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={`${title}, as a table`}>
      <table className="table">
        <thead>
          <tr>
            <th>Time, {zone}</th>
            {series.map(({ label }) => (
              <th key={label} className="end">
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {timesMs
            .slice(from)
            .map((ms, i) => (
              <tr key={ms}>
                <td>{time.format(ms)}</td>
                {series.map(({ label, values }) => (
                  <td key={label} className="end">
                    {cell(values[from + i], format)}
                  </td>
                ))}
              </tr>
            ))
            .reverse()}
        </tbody>
      </table>
    </div>
  );
}

const cell = (value: number | null | undefined, format: (value: number) => string): string =>
  value === null || value === undefined ? "–" : format(value);

/** What is known of the window. The same object while its times are, or the curve would be drawn anew each second. */
function useShown(props: Props): Props {
  const { timesMs } = props;
  const columns = props.series.map(({ values }) => values);
  const from = useMemo(() => firstShown(columns), [timesMs]);
  const times = useMemo(() => timesMs.slice(from), [timesMs, from]);
  const series = props.series.map((one) => ({ ...one, values: one.values.slice(from) }));
  return { ...props, timesMs: times, series };
}

export function LineChart(all: Props) {
  const props = useShown(all);
  if (!hasFigures(props.series.map(({ values }) => values))) return <p className="quiet">{props.none}</p>;
  return <Chart {...props} />;
}

function Chart(props: Props) {
  const [table, setTable] = useState(false);
  const [at, setAt] = useState<number | null>(null);
  const id = useId();
  return (
    <figure className="chart" aria-labelledby={id}>
      <figcaption>
        <span id={id} className="hidden-text">
          {props.title}: {props.summary}
        </span>
        {table ? <span className="quiet">{props.summary}</span> : <Legend {...props} at={at} />}
        <button
          type="button"
          className="button button-quiet"
          aria-pressed={table}
          onClick={() => setTable(!table)}
        >
          Table
        </button>
      </figcaption>
      {table ? <PlotTable {...props} /> : <Plot {...props} point={setAt} />}
    </figure>
  );
}
