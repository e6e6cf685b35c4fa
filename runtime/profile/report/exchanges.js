// Exchanges of rows between ranks that share experts: how much they send, how long they are under way, and what of it compute hides.

const exchangeGroups = {
  name: {text: "name, over all layers", columns: ["name", "pass"]},
  operation: {text: "each exchange", columns: ["layer", "name", "pass"]},
  layer: {text: "layer", columns: ["layer"]},
  pass: {text: "pass", columns: ["pass"]},
};

/** Sums exchanges with the same key columns, those with most exposed time first. */
function sumExchanges(exchanges, columns) {
  const sums = new Map(), all = !columns.includes("layer");
  for (const exchange of exchanges) {
    const shown = {...exchange, name: all ? nameOfAllLayers(exchange.name) : exchange.name};
    const key = columns.map((column) => shown[column]).join("\n");
    if (!sums.has(key)) sums.set(key, {...Object.fromEntries(columns.map((column) => [column, shown[column]])), count: 0, bytes: 0, under_way_ms: 0, late_ms: 0, exposed_ms: 0});
    for (const number of ["count", "bytes", "under_way_ms", "late_ms", "exposed_ms"]) sums.get(key)[number] += exchange[number];
  }
  return [...sums.values()].sort((one, two) => two.exposed_ms - one.exposed_ms);
}

function hiddenPart(exchange) { return exchange.under_way_ms > 0 ? Math.max(0, 1 - exchange.exposed_ms / exchange.under_way_ms) : null; }

function drawExchanges(profile, group) {
  const {columns} = exchangeGroups[group], steps = Math.max(1, profile.steps.length);
  const numbers = [["per step", (row) => digits(row.count / steps)], ["sent per step", (row) => bytesText(Math.round(row.bytes / steps))], ["ms under way", (row) => msColumn(row.under_way_ms / row.count)],
    ["ms until all had posted", (row) => msColumn(row.late_ms / row.count)], ["ms exposed", (row) => msColumn(row.exposed_ms / row.count)], ["ms exposed per step", (row) => msColumn(row.exposed_ms / steps)]];
  const heads = [...columns.map((column) => [column === "name" ? "exchange" : column, column === "layer" ? "number" : ""]), ...numbers.map(([text]) => [text, "number"]), ["hidden", "number"]];
  const body = sumExchanges(profile.exchanges, columns).map((row) => {
    const hidden = hiddenPart(row);
    return html("tr", {}, columns.map((column) => operationCell(row, column)), numbers.map(([, text]) => html("td", {class: "number"}, text(row))),
      html("td", {class: "number bar", style: `--share: ${(100 * (hidden ?? 0)).toFixed(1)}%`}, shareText(hidden)));
  });
  byId("exchanges").replaceChildren(html("table", {id: "exchanges-table"}, html("thead", {}, html("tr", {}, heads.map(([title, kind]) => html("th", {class: kind, scope: "col"}, title)))), html("tbody", {}, body)));
}

function showExchanges(profile) {
  byId("exchanges-section").hidden = !profile.exchanges?.length;
  if (!profile.exchanges?.length) return;
  const [all] = sumExchanges(profile.exchanges, []), steps = Math.max(1, profile.steps.length);
  byId("exchanges-what").append(`${bytesText(Math.round(all.bytes / steps))} sent per step, ${shareText(hiddenPart(all))} of the time under way hidden by compute`);
  byId("exchanges-controls").append(selectBox("sums by", Object.entries(exchangeGroups).map(([name, {text}]) => [name, text]), "name", (group) => drawExchanges(profile, group)));
  drawExchanges(profile, "name");
}
