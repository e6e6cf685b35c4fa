// Roofline (Williams, Waterman, Patterson 2009): FLOP/s over FLOPs per byte, both logarithmic, below the machine's measured peaks.

/** The points of the selected stage: one per operation and pass, over all layers. */
function rooflinePoints(profile) {
  const {stage} = operationFilter;
  const wanted = profile.operations.filter((operation) => stage === "all" || String(operation.stage) === stage);
  const sums = sumOperations(wanted, ["name", "kind", "pass"], (operation) => nameOfAllLayers(operation.name)), whole = sum(sums.map((row) => row.ms));
  const points = sums.filter((row) => row.flops > 0 && row.bytes > 0 && row.ms > 0).map((row) => ({...operationRates(row, profile.machine, whole), intensity: row.flops / row.bytes}));
  return {points: points.sort((one, two) => two.ms - one.ms), left: sums.length - points.length};
}

function drawRoofline(profile, width) {
  const {points, left: dropped} = rooflinePoints(profile), box = byId("roofline"), peak = profile.machine.peak_flops, bandwidth = profile.machine.memory_bandwidth;
  byId("roofline-what").textContent = (operationFilter.stage === "all" ? "all stages" : `stage ${operationFilter.stage}`) + ", the same operation of all layers as one point; area by time" + (dropped ? `; ${dropped} without FLOPs or bytes left out` : "");
  if (!points.length) return void box.replaceChildren(sentence("No operation here has both FLOPs and bytes."));
  const ridge = peak / bandwidth, intensities = points.map((point) => point.intensity), speeds = points.map((point) => point.perSecond);
  const [lowX, highX] = [Math.min(ridge / 10, ...intensities) / 2, Math.max(ridge * 10, ...intensities) * 2], [lowY, highY] = [Math.min(peak / 100, ...speeds) / 2, Math.max(peak, ...speeds) * 2.5];
  const left = 92, right = 20, top = 16, bottom = 44, height = Math.min(460, Math.max(320, width * 0.42)), plot = width - left - right, high = height - top - bottom;
  const log = Math.log10, x = (value) => left + plot * (log(value) - log(lowX)) / (log(highX) - log(lowX)), y = (value) => top + high * (1 - (log(value) - log(lowY)) / (log(highY) - log(lowY)));
  const picture = svg("svg", {height, role: "img", "aria-label": "Roofline"});
  for (const value of decades(lowX, highX)) picture.append(svg("line", {x1: x(value), x2: x(value), y1: top, y2: top + high, class: "grid"}), svgText(x(value), height - bottom + 17, decadeText(value), "middle quiet"));
  for (const value of decades(lowY, highY)) picture.append(svg("line", {x1: left, x2: left + plot, y1: y(value), y2: y(value), class: "grid"}), svgText(left - 8, y(value) + 4, countText(Math.round(value), "FLOP/s"), "end quiet"));
  picture.append(svgText(left + plot / 2, height - 6, "FLOPs per byte moved", "middle"));
  // The roof: memory bandwidth up to the ridge, then the matmul peak.
  const lowest = Math.max(lowX, lowY / bandwidth), roof = `M${x(lowest)},${y(lowest * bandwidth)} L${x(ridge)},${y(peak)} L${x(highX)},${y(peak)}`;
  picture.append(svg("path", {d: roof, fill: "none", stroke: "var(--text)", "stroke-width": 1.75}));
  const angle = -Math.atan2(y(lowest * bandwidth) - y(peak), x(ridge) - x(lowest)) * 180 / Math.PI, at = lowest ** 0.78 * ridge ** 0.22;
  const placed = [];
  const peakText = `matmul peak ${flopsText(peak)}`, slopeText = `memory ${bandwidthText(bandwidth)}`;
  picture.append(svg("text", {x: x(highX) - 4, y: y(peak) - 7, class: "end strong halo"}, peakText),
    svg("text", {transform: `translate(${x(at)} ${y(at * bandwidth) - 7}) rotate(${angle})`, class: "middle strong halo"}, slopeText));
  placed.push([x(highX) - 200, y(peak) - 20, x(highX), y(peak) - 2], [x(ridge), y(peak) - 2, x(highX), y(peak) + 2], [x(at) - 70, y(at * bandwidth) - 45, x(at) + 70, y(at * bandwidth) + 20]);
  for (let part = 0; part < 1; part += 0.02) {  // keeps labels off the slope
    const on = lowest ** (1 - part) * ridge ** part;
    placed.push([x(on) - 2, y(on * bandwidth) - 2, x(on) + 2, y(on * bandwidth) + 2]);
  }
  const most = points[0].ms, radius = (point) => 3.5 + 11 * Math.sqrt(point.ms / most);
  for (const point of points)
    picture.append(explain(svg("circle", {cx: x(point.intensity), cy: y(point.perSecond), r: radius(point), fill: `var(--${kindOf(point.pass).colour})`, "fill-opacity": 0.85, stroke: "var(--panel)", "stroke-width": 1.25}),
      `${point.name} · ${kindOf(point.pass).name}`, kindOf(point.pass).colour,
      [["time", `${timeText(point.ms)}   ${shareText(point.share)}`], ["count", point.count], ["speed", flopsText(point.perSecond)], ["of peak", shareText(point.ofPeak)], ["bytes", bandwidthText(point.bandwidth)],
        ["of bandwidth", shareText(point.ofBandwidth)], ["FLOPs per byte", digits(point.intensity)], ["of the roof here", shareText(point.perSecond / Math.min(peak, point.intensity * bandwidth))]]));
  for (const point of points) placed.push([-1, -0.7, 1, 0.7].map((side, index) => (index % 2 ? y(point.perSecond) : x(point.intensity)) + side * radius(point)));
  const labelled = new Set();
  for (const [rank, point] of points.entries()) {
    if (labelled.has(point)) continue;
    // Passes of one operation at the same spot share a label.
    const same = points.filter((other) => other.name === point.name && Math.hypot(x(other.intensity) - x(point.intensity), y(other.perSecond) - y(point.perSecond)) < 8);
    for (const other of same) labelled.add(other);
    const passes = Object.keys(actionKinds).filter((kind) => same.some((other) => other.pass === kind)).join(" ");
    labelPoint(picture, placed, `${shortName(point.name)} ${passes}`, x(point.intensity), y(point.perSecond), radius(point), [left, top, left + plot, top + high], rank < 20 && point.share >= 0.01 ? [0, 20, 40] : [0]);
  }
  box.replaceChildren(picture);
}

/** A power of ten as an axis label: 0.01, 1, 100, 1 k. */
function decadeText(value) { return value >= 1 ? countText(Math.round(value)) : String(Number(value.toPrecision(1))); }

/** The last two parts of a dotted name. */
function shortName(name) { return name.split(".").slice(-2).join(".").replace(/^\*\./, ""); }

/** Places a label at one of these distances (pixels) from a point if there is room, with a line if it is far; omits it if there is no room. */
function labelPoint(picture, placed, text, x, y, radius, [left, top, right, bottom], distances) {
  const wide = text.length * 6.6, high = 13;
  for (const away of distances) {
    const out = radius + 3 + away;
    const sides = [[x + out, y - high / 2], [x - out - wide, y - high / 2], [x + out * 0.7, y + out * 0.7], [x - wide - out * 0.7, y + out * 0.7], [x + out * 0.7, y - high - out * 0.7], [x - wide - out * 0.7, y - high - out * 0.7], [x - wide / 2, y + out], [x - wide / 2, y - out - high]];
    for (const [from, up] of sides) {
      const box = [from, up, from + wide, up + high];
      if (from < left || box[2] > right || up < top || box[3] > bottom || placed.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1])) continue;
      placed.push(box);
      if (away) picture.append(svg("line", {x1: x, y1: y, x2: Math.min(Math.max(x, from), box[2]), y2: up > y ? up + 2 : box[3] < y ? box[3] : up + high / 2, stroke: "var(--quiet)", "stroke-width": 0.75, "pointer-events": "none"}));
      picture.append(svg("text", {x: from, y: up + 11, class: "halo", style: "pointer-events: none; font-size: 11.5px"}, text));
      return;
    }
  }
}

function showRoofline(profile) {
  if (!isNumber(profile.machine?.peak_flops) || !isNumber(profile.machine?.memory_bandwidth) || !profile.operations?.length)
    return void byId("roofline").append(sentence("No roofline: the machine's peak was not measured, or no operations were recorded, as in a rehearsal."));
  const redraw = watchWidth(byId("roofline"), (width) => drawRoofline(profile, width));
  onStageChange(redraw);
  const passes = new Set(profile.operations.map((operation) => operation.pass));
  showLegend(byId("roofline-legend"), Object.keys(actionKinds).filter((kind) => passes.has(kind)).map((kind) => [kindOf(kind).colour, "OS".includes(kind) ? kindOf(kind).name : `${kind} ${kindOf(kind).name}`]));
}
