// A module of its own, so that the charting library is loaded on the first chart.
import "uplot/dist/uPlot.min.css";

export { default } from "uplot";
