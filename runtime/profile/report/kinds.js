// The kinds of activity of a rank. Each has the same name and colour (report.css) in every chart.

const actionKinds = {
  F: {colour: "forward", name: "forward"},
  I: {colour: "input_gradient", name: "input gradient"},
  W: {colour: "weight_gradient", name: "weight gradient"},
  B: {colour: "backward", name: "backward"},
  O: {colour: "optimizer", name: "optimizer"},
  S: {colour: "checkpoint", name: "snapshot"},
};

const causeNames = {
  forward: "F forward",
  input_gradient: "I input gradient",
  weight_gradient: "W weight gradient",
  backward: "B backward",
  optimizer: "optimizer",
  bubble: "bubble",
  imbalance: "imbalance",
  transfer: "transfer",
  data: "data",
  checkpoint: "checkpoint",
  transport: "transport",
  exchange: "exchange of experts' rows",
  reduction: "reduction between replicas",
  other: "other",
};
const computeCauses = new Set(["forward", "input_gradient", "weight_gradient", "backward", "optimizer"]);

/** What a wait is for, and its colour as long as that was not produced; once it is produced, the wait is for its transfer: "transfer". */
const waitKinds = {
  activation: {colour: "bubble", name: "an activation"},
  gradient: {colour: "bubble", name: "a gradient"},
  credit: {colour: "transport", name: "credit (room at the receiver)"},
  batch: {colour: "data", name: "its batch"},
  exchange: {colour: "exchange", name: "rows of the ranks that share its experts"},
  replicas: {colour: "reduction", name: "gradient sums or parameters of other replicas"},
};

function kindOf(letter) { return actionKinds[letter] ?? {colour: "other", name: letter}; }
function waitOf(kind) { return waitKinds[kind] ?? {colour: "other", name: kind}; }
function causeName(cause) { return causeNames[cause] ?? cause; }
function causeColour(cause) { return cause in causeNames ? cause : "other"; }

/** Shows colours with their names: [[colour, name], …]. */
function showLegend(box, entries) { box.replaceChildren(...entries.map(([colour, name]) => html("span", {}, swatch(colour), name))); }
