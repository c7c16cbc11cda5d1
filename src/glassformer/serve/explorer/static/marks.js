// @ts-check
// All parts of pages in one module: charts, their frame, controls, formulas.
import {button, choice, reading, select, slider, stepper, table, toggle} from "./controls.js";
import {colour, csv, figure, legend} from "./figure.js";
import {atlas, heatmap} from "./matrix.js";
import {formula, prose, tex} from "./mathml.js";
import {bars, lines, plane} from "./plots.js";

export {
  atlas,
  bars,
  button,
  choice,
  colour,
  csv,
  figure,
  formula,
  heatmap,
  legend,
  lines,
  plane,
  prose,
  reading,
  select,
  slider,
  stepper,
  table,
  tex,
  toggle,
};
