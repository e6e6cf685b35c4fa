// Operations: totals by operation, layer, kind or stage, with the achieved rates relative to the machine's peaks. The roofline shows the selected stage.

const operationFilter = {stage: "all", pass: "all", text: "", group: "operation"};
const stageListeners = [];
function onStageChange(listener) { stageListeners.push(listener); }
function chooseStage(stage) {
  operationFilter.stage = stage;
  for (const listener of stageListeners) listener();
}

const operationGroups = {
  operation: {text: "each operation", columns: ["stage", "layer", "name", "kind", "pass"]},
  name: {text: "the same of all layers", columns: ["name", "kind", "pass"]},
  layer: {text: "layer", columns: ["stage", "layer"]},
  kind: {text: "kind", columns: ["kind", "pass"]},
  stage: {text: "stage", columns: ["stage"]},
};
const operationWords = {stage: "stage", layer: "layer", name: "operation", kind: "kind", pass: "pass"};

/** A name without its layer number, which is the same for all layers. */
function nameOfAllLayers(name) { return name.replace(/\b(layers?|blocks?)([._])\d+/g, "$1$2*"); }

/** Sums rows with the same key columns. */
function sumOperations(operations, columns, plainName = (operation) => operation.name) {
  const sums = new Map();
  for (const operation of operations) {
    const shown = {...operation, name: plainName(operation)};
    const key = columns.map((column) => shown[column]).join("\n");
    let total = sums.get(key);
    if (!total) sums.set(key, total = {...Object.fromEntries(columns.map((column) => [column, shown[column]])), count: 0, ms: 0, flops: 0, bytes: 0});
    for (const number of ["count", "ms", "flops", "bytes"]) total[number] += operation[number] ?? 0;
  }
  return [...sums.values()];
}

/** Rates, and their fractions of the machine's measured peaks; null if undefined. */
function operationRates(row, machine, wholeTime) {
  const seconds = row.ms / 1000, flops = row.flops > 0 ? ratio(row.flops, seconds) : null, bandwidth = row.bytes > 0 ? ratio(row.bytes, seconds) : null;
  return {...row, share: ratio(row.ms, wholeTime), each: ratio(row.ms, row.count), perSecond: flops, ofPeak: ratio(flops, machine?.peak_flops), bandwidth, ofBandwidth: ratio(bandwidth, machine?.memory_bandwidth)};
}

const operationNumbers = [
  ["ms", "time, ms", (row) => msColumn(row.ms)], ["share", "of the time", (row) => shareText(row.share)], ["count", "count", (row) => row.count.toLocaleString("en").replaceAll(",", thinSpace)],
  ["each", "ms each", (row) => isNumber(row.each) ? row.each.toFixed(row.each < 0.1 ? 4 : 3) : "–"], ["perSecond", "GFLOP/s", (row) => isNumber(row.perSecond) ? (row.perSecond / 1e9).toFixed(2) : "–"],
  ["ofPeak", "of peak", (row) => shareText(row.ofPeak)], ["bandwidth", "GB/s", (row) => isNumber(row.bandwidth) ? (row.bandwidth / 1e9).toFixed(2) : "–"], ["ofBandwidth", "of memory", (row) => shareText(row.ofBandwidth)],
];

function operationCell(row, column) {
  const value = row[column];
  if (column === "pass") return html("td", {}, swatch(kindOf(value).colour), `${value} ${kindOf(value).name}`);
  if (column === "stage" || column === "layer") return html("td", {class: "number"}, isNumber(value) && value >= 0 ? String(value) : "–");
  return html("td", {class: column, title: value}, String(value));
}

class OperationTable {
  constructor(profile) {
    this.profile = profile;
    this.sort = {column: "ms", descending: true};
    this.shown = 40;
  }

  rows() {
    const {stage, pass, text, group} = operationFilter, {columns} = operationGroups[group];
    const wanted = this.profile.operations.filter((operation) => (stage === "all" || String(operation.stage) === stage) && (pass === "all" || operation.pass === pass) && (!text || operation.name.toLowerCase().includes(text)));
    const rows = sumOperations(wanted, columns, group === "name" ? (operation) => nameOfAllLayers(operation.name) : undefined);
    const whole = sum(rows.map((row) => row.ms));
    const priced = rows.map((row) => operationRates(row, this.profile.machine, whole)), {column, descending} = this.sort;
    return priced.sort((one, two) => {
      const [a, b] = [one[column], two[column]];
      if (a === b) return 0;
      if (a === null || a === undefined) return 1;  // unknown values last, in either order
      if (b === null || b === undefined) return -1;
      return (typeof a === "string" ? a.localeCompare(b) : a - b) * (descending ? -1 : 1);
    });
  }

  head(column, text, kind) {
    const sorted = this.sort.column === column ? (this.sort.descending ? "descending" : "ascending") : "none";
    const press = () => {
      this.sort = {column, descending: sorted === "none" ? kind === "number" : sorted === "ascending"};
      this.draw();
    };
    return html("th", {class: kind, scope: "col", "aria-sort": sorted, "data-column": column}, html("button", {type: "button", onclick: press}, text));
  }

  draw() {
    const rows = this.rows(), {columns} = operationGroups[operationFilter.group];
    if (!columns.includes(this.sort.column) && !operationNumbers.some(([name]) => name === this.sort.column)) return void (this.sort = {column: "ms", descending: true}, this.draw());
    const heads = [...columns.map((column) => this.head(column, operationWords[column], column === "stage" || column === "layer" ? "number" : "")), ...operationNumbers.map(([column, text]) => this.head(column, text, "number"))];
    const bars = {share: Math.max(...rows.map((row) => row.share)), ofPeak: 1, ofBandwidth: 1};
    const body = rows.slice(0, this.shown).map((row) => html("tr", {}, columns.map((column) => operationCell(row, column)), operationNumbers.map(([column, , text]) =>
      html("td", column in bars && isNumber(row[column]) ? {class: "number bar", style: `--share: ${(100 * Math.min(1, row[column] / bars[column])).toFixed(1)}%`} : {class: "number"}, text(row)))));
    byId("operations").replaceChildren(html("table", {id: "operations-table"}, html("thead", {}, html("tr", {}, heads)), html("tbody", {}, body)));
    const rest = rows.length - this.shown;
    byId("operations-more").replaceChildren(`${rows.length} row${rows.length === 1 ? "" : "s"}, ${timeText(sum(rows.map((row) => row.ms)))} together. `,
      rest > 0 ? html("button", {type: "button", onclick: () => { this.shown = Infinity; this.draw(); }}, `Show the other ${rest}`) : "");
  }
}

function showOperations(profile) {
  if (!profile.operations?.length) {
    byId("operations").append(sentence("This profile has no operations: nothing was computed, as in a rehearsal, or operations were not recorded."));
    return;
  }
  const table = new OperationTable(profile);
  const distinct = (column) => [...new Set(profile.operations.map((operation) => operation[column]))].sort((one, two) => typeof one === "number" ? one - two : String(one).localeCompare(String(two)));
  const stages = selectBox("stage", [["all", "all"], ...distinct("stage").map((stage) => [String(stage), stage >= 0 ? String(stage) : "none"])], "all", chooseStage);
  const passes = selectBox("pass", [["all", "all"], ...distinct("pass").map((pass) => [pass, `${pass} ${kindOf(pass).name}`])], "all", (pass) => { operationFilter.pass = pass; table.draw(); });
  const groups = selectBox("sums by", Object.entries(operationGroups).map(([name, group]) => [name, group.text]), operationFilter.group, (group) => { operationFilter.group = group; table.draw(); });
  const search = html("input", {type: "search", placeholder: "part of a name", "aria-label": "Part of an operation's name", oninput: () => { operationFilter.text = search.value.trim().toLowerCase(); table.draw(); }});
  stages.querySelector("select").id = "operations-stage";
  byId("operations-controls").append(stages, passes, groups, search);
  onStageChange(() => { stages.querySelector("select").value = operationFilter.stage; table.draw(); });
  table.draw();
}
