// The loss of every step for which it is known.

function drawLoss(points, width) {
  const left = 56, right = 64, top = 14, bottom = 40, height = 240, plot = Math.max(60, width - left - right), high = height - top - bottom;
  const losses = points.map((point) => point[1]), low = Math.min(...losses), most = Math.max(...losses), pad = (most - low) * 0.08 || Math.abs(most) * 0.05 || 1;
  const [bottomLoss, topLoss, first, last] = [low - pad, most + pad, points[0][0], points.at(-1)[0]];
  const x = (step) => left + (last > first ? plot * (step - first) / (last - first) : plot / 2), y = (loss) => top + high * (1 - (loss - bottomLoss) / (topLoss - bottomLoss));
  const picture = svg("svg", {height, role: "img", "aria-label": "Loss by step"});
  const marks = ticks(bottomLoss, topLoss, 5), decimals = Math.max(2, -Math.floor(Math.log10(marks.length > 1 ? marks[1] - marks[0] : 1)));
  for (const loss of marks) picture.append(svg("line", {x1: left, x2: left + plot, y1: y(loss), y2: y(loss), class: "grid"}), svgText(left - 8, y(loss) + 4, loss.toFixed(decimals), "end quiet"));
  for (const step of ticks(first, last, Math.max(2, Math.floor(plot / 70))).filter(Number.isInteger)) picture.append(svgText(x(step), height - bottom + 17, String(step), "middle quiet"));
  picture.append(svgText(left + plot / 2, height - 5, "step", "middle quiet"));
  picture.append(svg("path", {d: "M" + points.map(([step, loss]) => `${x(step).toFixed(1)},${y(loss).toFixed(1)}`).join("L"), fill: "none", stroke: "var(--accent)", "stroke-width": 1.75, "stroke-linejoin": "round"}));
  if (points.length <= 60) for (const [step, loss] of points) picture.append(svg("circle", {cx: x(step), cy: y(loss), r: 2.5, fill: "var(--accent)"}));
  picture.append(svgText(x(last) + 7, y(losses.at(-1)) + 4, losses.at(-1).toFixed(4), "strong"));
  picture.append(svg("rect", {x: left, y: top, width: plot, height: high, fill: "transparent", onpointerleave: hideTooltip, onpointermove: (event) => {
    const near = points.reduce((best, point) => Math.abs(x(point[0]) - event.offsetX) < Math.abs(x(best[0]) - event.offsetX) ? point : best);
    showTooltip(event, `step ${near[0]}`, null, [["loss", near[1].toFixed(4)]]);
  }}));
  byId("loss").replaceChildren(picture);
}

function showLoss(profile) {
  const known = profile.loss?.length ? profile.loss : profile.steps.map((step) => [step.step, step.loss]);
  const points = known.filter(([, loss]) => isNumber(loss));
  if (!points.length) return void byId("loss").append(sentence("No loss is known: a rehearsal computes none."));
  watchWidth(byId("loss"), (width) => drawLoss(points, width));
}
