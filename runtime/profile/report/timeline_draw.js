// Draws the timeline on a canvas, since 64 ranks of a long step have tens of thousands of boxes.

const timelineGutter = 70, timelineRight = 14, stripHeight = 34, axisHeight = 20;

/** Heights in pixels for that many ranks, times `zoom`: of the measured lane, the planned one, and a row with its gap. */
function rowHeights(ranks, zoom, withPlan) {
  const measured = Math.round((ranks <= 8 ? 26 : ranks <= 20 ? 16 : 11) * zoom);
  const planned = withPlan ? Math.max(3, Math.round(measured * 0.42)) : 0;
  const gap = ranks <= 8 ? 12 : ranks <= 20 ? 7 : 4;
  return {measured, planned, row: measured + planned + (planned ? 1 : 0) + gap};
}

/** The context of a cleared canvas at the screen's resolution, with CSS pixels as units. */
function freshContext(canvas, width, height) {
  const density = devicePixelRatio || 1;
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

function timelineColours() {
  const names = ["page", "panel", "line", "grid", "text", "quiet", "accent", ...Object.keys(causeNames)];
  const colours = Object.fromEntries(names.map((name) => [name, cssColour(name)]));
  for (const cause of Object.keys(causeNames)) colours["on-" + cause] = cssColour("on-" + cause);
  return colours;
}

const canvasFont = (size, weight = "") => `${weight} ${size}px system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif`;

/** An upper bound of a text's width in the context's font: measuring tens of thousands of names would take longer than drawing their boxes. */
function textWidth(context, text) {
  const digit = textWidth.digits[context.font] ??= context.measureText("0").width;
  return digit * 1.05 * text.length;
}
textWidth.digits = {};

/** The longest of the texts that fits in the box; nothing if none does. */
function fitting(context, texts, width) { return texts.find((text) => textWidth(context, text) <= width - 3) ?? ""; }

/** The forms of an action's name, the longest first: stage, kind and microbatch; without the stage; the microbatch alone. */
const actionForms = [actionName, (span) => `${span.kind}${span.microbatch}`, (span) => String(span.microbatch)];

/** The possible texts of a box, the longest first. All actions of a chart use the same form. */
function boxTexts(span, view) {
  if (span.lane === "wait") return span.microbatch >= 0 && span.colour !== "transfer" ? [`waits for ${span.wait} ${span.microbatch}`, `${span.wait} ${span.microbatch}`] : [];
  if ("OS".includes(span.kind)) return [kindOf(span.kind).name, span.kind];
  return [actionForms[view.form](span)];
}

/** The first form that fits in three out of four boxes at this zoom, or the last form. */
function fittingForm(context, model, view, plot) {
  context.font = canvasFont(Math.min(12, view.heights.measured - 1));
  const fits = actionForms.map(() => 0);
  let all = 0;
  for (const {measured} of model.ranks)
    for (let index = firstAfter(measured, view.from); index < measured.length && measured[index].begin < view.to && all < 3000; ++index) {
      const span = measured[index];
      if ("OS".includes(span.kind)) continue;
      ++all;
      actionForms.forEach((form, number) => { if (textWidth(context, form(span)) <= (span.end - span.begin) / (view.to - view.from) * plot - 3) ++fits[number]; });
    }
  const best = fits.findIndex((fit) => fit >= 0.75 * all);
  return best < 0 ? actionForms.length - 1 : best;
}

function drawSpans(context, spans, place, view) {
  const {colours, from, to} = view;
  const scale = place.width / (to - from);
  context.font = canvasFont(Math.min(12, place.height - 1));
  context.globalAlpha = place.faint ? 0.6 : 1;
  for (let index = Math.max(0, firstAfter(spans, from) - 1); index < spans.length && spans[index].begin < to; ++index) {
    const span = spans[index];
    const left = Math.max(place.left, place.left + (span.begin - from) * scale), right = Math.min(place.left + place.width, place.left + (span.end - from) * scale);
    if (right <= place.left) continue;
    const width = Math.max(right - left, 0.6), gap = width > 4 ? 0.75 : 0;  // a gap between neighbours of the same colour
    const top = place.top + (span.half === 2 ? place.height / 2 : 0), height = span.half ? place.height / 2 : place.height;
    context.fillStyle = colours[span.colour];
    context.fillRect(left, top, width - gap, height);
    if (place.faint || height < 9 || width < 9) continue;
    const text = fitting(context, boxTexts(span, view), width);
    if (!text) continue;
    context.fillStyle = colours["on-" + span.colour];
    context.fillText(text, left + (width - gap) / 2, top + height / 2 + 0.5);
  }
  context.globalAlpha = 1;
}

/** Strip with the number of computing ranks over the whole step, the visible range marked; below it the time axis of that range. */
function drawTimelineTop(canvas, width, model, view, busy) {
  const context = freshContext(canvas, width, stripHeight + axisHeight), {colours, from, to} = view;
  const plot = width - timelineGutter - timelineRight, high = stripHeight - 6, ranks = model.ranks.length;
  context.fillStyle = colours.grid;
  context.fillRect(timelineGutter, 2, plot, high);
  context.fillStyle = colours.quiet;
  context.globalAlpha = 0.75;
  busy.forEach((value, bin) => context.fillRect(timelineGutter + bin * plot / busy.length, 2 + high * (1 - value / ranks), plot / busy.length + 0.5, high * value / ranks));
  context.globalAlpha = 0.65;
  const left = timelineGutter + from / model.end * plot, right = timelineGutter + to / model.end * plot;
  context.fillStyle = colours.panel;
  context.fillRect(timelineGutter, 2, left - timelineGutter, high);
  context.fillRect(right, 2, timelineGutter + plot - right, high);
  context.globalAlpha = 1;
  context.strokeStyle = colours.accent;
  context.lineWidth = 1.5;
  context.strokeRect(left + 0.75, 2.75, Math.max(2, right - left - 1.5), high - 1.5);
  context.fillStyle = colours.quiet;
  context.font = canvasFont(11);
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillText("computing", timelineGutter - 6, 2 + high / 2 - 6);
  context.fillText(`of ${ranks}`, timelineGutter - 6, 2 + high / 2 + 7);
  const marks = ticks(from, to, Math.max(2, Math.floor(plot / 110)));
  context.textAlign = "center";
  context.font = canvasFont(12);
  for (const time of marks) {
    const x = timelineGutter + (time - from) / (to - from) * plot;
    context.fillStyle = colours.text;
    const text = tickTime(time, marks.length > 1 ? marks[1] - marks[0] : to - from, to), half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(Math.max(x, half), width - half), stripHeight + 9);
    context.fillStyle = colours.line;
    context.fillRect(x, stripHeight + 16, 1, axisHeight - 16);
  }
}

/** All ranks: measured above, planned beneath. `view`: {from, to, colours, heights, show: {plan, waits}}. */
function drawTimelineBody(canvas, width, model, view) {
  const {colours, heights, from, to} = view, height = model.ranks.length * heights.row + 22;
  const context = freshContext(canvas, width, height), plot = width - timelineGutter - timelineRight;
  const x = (time) => timelineGutter + (time - from) / (to - from) * plot;
  for (const time of ticks(from, to, Math.max(2, Math.floor(plot / 110)))) {
    context.fillStyle = colours.grid;
    context.fillRect(x(time), 0, 1, height - 22);
  }
  context.textBaseline = "middle";
  view.form = fittingForm(context, model, view, plot);
  model.ranks.forEach((rank, index) => {
    const top = index * heights.row + 2;
    context.textAlign = "right";
    context.fillStyle = colours.text;
    context.font = canvasFont(Math.min(12.5, heights.row - 4));
    context.fillText(`rank ${index}`, timelineGutter - 8, top + heights.measured / 2);
    if (heights.planned >= 10) {
      context.fillStyle = colours.quiet;
      context.font = canvasFont(11);
      context.fillText("planned", timelineGutter - 8, top + heights.measured + 1 + heights.planned / 2);
    }
    context.textAlign = "center";
    const place = {left: timelineGutter, width: plot, top, height: heights.measured};
    if (view.show.waits) drawSpans(context, rank.waits, place, view);
    drawSpans(context, rank.measured, place, view);
    if (heights.planned) drawSpans(context, rank.planned, {...place, top: top + heights.measured + 1, height: heights.planned, faint: true}, view);
  });
  drawEnds(context, model, view, x, width, height);
}

/** The overlay that follows the pointer: the selected range, the action's inputs and outputs. A canvas of its own, since the rows
 * take too long to be drawn again for each movement. */
function drawTimelineOver(canvas, width, model, view) {
  const {colours, heights, from, to} = view, height = model.ranks.length * heights.row + 22;
  const context = freshContext(canvas, width, height), plot = width - timelineGutter - timelineRight;
  if (view.hover) drawTokens(context, model, view, (time) => timelineGutter + (time - from) / (to - from) * plot, plot);
  if (view.mark) {
    context.fillStyle = colours.accent;
    context.globalAlpha = 0.22;
    context.fillRect(Math.min(...view.mark), 0, Math.abs(view.mark[1] - view.mark[0]), height - 22);
  }
}

/** The ends of the measured and the predicted step, with labels below the rows. */
function drawEnds(context, model, view, x, width, height) {
  const {colours, from, to} = view;
  context.font = canvasFont(12);
  const ends = [["measured end", model.duration, []], ["planned end", model.predicted, [4, 3]]].filter(([, time]) => isNumber(time) && time >= from && time <= to);
  ends.sort((one, two) => one[1] - two[1]);
  ends.forEach(([name, time, dash], index) => {
    context.strokeStyle = colours.text;
    context.lineWidth = 1;
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(x(time), 0);
    context.lineTo(x(time), height - 20);
    context.stroke();
    context.setLineDash([]);
    const text = `${name} ${timeText(time)}`, size = context.measureText(text).width;
    // The label of the earlier end is left of it, that of the later end right of it if there is room, so they never overlap.
    const rightOfIt = index === 1 && x(time) + size + 6 < width;
    const shift = index === 0 && ends.length === 2 && x(ends[1][1]) + context.measureText(ends[1][0] + timeText(ends[1][1])).width + 14 >= width ? Math.min(0, x(ends[1][1]) - context.measureText(`${ends[1][0]} ${timeText(ends[1][1])}`).width - 22 - x(time)) : 0;
    context.textAlign = rightOfIt ? "left" : "right";
    context.fillStyle = colours.text;
    context.fillText(text, x(time) + (rightOfIt ? 6 : -6 + shift), height - 10);
  });
}

/** The inputs of the action under the pointer and the users of its output, as lines from production to use. */
function drawTokens(context, model, view, x, plot) {
  const {hover, heights, colours} = view, {made, used} = model.tokens(hover);
  const middle = (rank) => rank * heights.row + 2 + heights.measured / 2;
  context.strokeStyle = context.fillStyle = colours.text;
  context.lineWidth = 1.5;
  context.save();
  context.beginPath();
  context.rect(timelineGutter - 1, 0, plot + 2, 1e5);
  context.clip();
  for (const token of [...made, ...used]) {
    context.beginPath();
    context.moveTo(x(token.produced), middle(token.from));
    context.lineTo(x(token.used), middle(token.to));
    context.stroke();
    context.beginPath();
    context.arc(x(token.used), middle(token.to), 3, 0, 7);
    context.fill();
  }
  const top = hover.rank * heights.row + 2 + (hover.lane === "planned" ? heights.measured + 1 : 0);
  context.strokeRect(x(hover.begin), top - 0.5, Math.max(2, x(hover.end) - x(hover.begin)), (hover.lane === "planned" ? heights.planned : heights.measured) + 1);
  context.restore();
}
