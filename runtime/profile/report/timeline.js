// The timeline's interaction: zooming, panning, hovering, switches.

const minView = 0.002;  // ms: the minimum range

/** The box at this place of the body, in pixels; nothing if there is none. */
function spanAt(model, view, plotWidth, px, py) {
  const {heights, from, to} = view, rank = model.ranks[Math.floor(py / heights.row)];
  if (!rank || px < timelineGutter) return null;
  const y = py % heights.row - 2, time = from + (px - timelineGutter) / plotWidth * (to - from), near = 2 / plotWidth * (to - from);
  const inLane = (spans, height, top) => {
    const at = firstAfter(spans, time - near);
    const found = spans.slice(at, at + 4).filter((span) => span.begin <= time + near);
    return found.find((span) => span.begin <= time && time < span.end && (span.half === 0 || (span.half === 2) === (y - top > height / 2))) ?? found[0] ?? null;
  };
  if (y < heights.measured) return inLane(rank.measured, heights.measured, 0) ?? (view.show.waits ? inLane(rank.waits, heights.measured, 0) : null);
  return y < heights.measured + 1 + heights.planned ? inLane(rank.planned, heights.planned, heights.measured + 1) : null;
}

/** Title and rows of the tooltip for a box. */
function spanText(span) {
  if (span.lane === "wait") {
    const rows = [["rank", span.rank], ["for stage", span.stage], ["microbatch", span.microbatch], ["from rank", span.peer], ["waited", timeText(span.to - span.from)]];
    if (span.produced !== null && span.to > span.from) {
      const made = Math.min(Math.max(span.produced, span.from), span.to);
      rows.push(["not made yet", timeText(made - span.from)], ["under way", timeText(span.to - made)]);
    }
    return [`waits for ${waitOf(span.wait).name}`, rows.filter(([name, value]) => typeof value === "string" || (isNumber(value) && value >= 0) || name === "rank")];
  }
  const rows = [["rank", span.rank]];
  if (span.stage >= 0) rows.push(["stage", span.stage]);
  if (span.microbatch >= 0) rows.push(["microbatch", span.microbatch]);
  rows.push(["begin", timeText(span.begin)], [span.lane === "planned" ? "planned to take" : "took", timeText(span.end - span.begin)]);
  if (span.plan) rows.push(["planned to take", timeText(span.plan.end - span.plan.begin)], ["later than planned", signedTime(span.end - span.plan.end)]);
  const name = actionName(span), kind = kindOf(span.kind).name;
  return [(name === kind ? name : `${name} · ${kind}`) + (span.lane === "planned" ? " (planned)" : ""), rows.map(([key, value]) => [key, String(value)])];
}

function showTimeline(profile) {
  const box = byId("timeline");
  if (!profile.timeline?.measured?.length) return void box.append(sentence("This profile has no timeline."));
  const model = timelineModel(profile), planned = model.ranks.some((rank) => rank.planned.length > 0);
  const view = {from: 0, to: model.end, colours: timelineColours(), heights: null, show: {plan: planned, waits: true}, tall: 1, mark: null, hover: null};
  const strip = html("canvas", {class: "timeline-strip", "aria-hidden": "true"});
  const body = html("canvas", {class: "timeline-body", tabindex: 0, role: "img", "aria-label": `Timeline of step ${profile.timeline.step} on ${model.ranks.length} ranks`});
  const over = html("canvas", {class: "timeline-over", "aria-hidden": "true"});
  box.append(html("div", {class: "timeline-top"}, strip), html("div", {class: "timeline-rows"}, body, over));
  byId("timeline-step").textContent = `step ${profile.timeline.step}` + (planned ? ", the planned one beneath the measured one" : "");
  let width = 0, busy = [], pending = false, overPending = false;
  const plot = () => width - timelineGutter - timelineRight;

  const draw = () => {
    pending = false;
    view.heights = rowHeights(model.ranks.length, view.tall, view.show.plan);
    drawTimelineTop(strip, width, model, view, busy);
    drawTimelineBody(body, width, model, view);
    drawTimelineOver(over, width, model, view);
    body.dataset.from = view.from;
    body.dataset.to = view.to;
  };
  const redraw = () => {
    if (!pending && width > 0) requestAnimationFrame(draw);
    pending = width > 0;
  };
  const redrawOver = () => {
    if (!overPending) requestAnimationFrame(() => { overPending = false; drawTimelineOver(over, width, model, view); });
    overPending = true;
  };
  watchWidth(box, (now) => {
    width = now;
    busy = computingRanks(model, Math.max(1, Math.floor(plot() / 2)));
    draw();
  });
  onThemeChange(() => { view.colours = timelineColours(); redraw(); });

  const show = (from, to) => {
    const length = Math.min(Math.max(to - from, minView), model.end);
    const middle = (from + to) / 2;
    view.from = Math.min(Math.max(middle - length / 2, 0), model.end - length);
    view.to = view.from + length;
    redraw();
  };
  const move = (part) => show(view.from + part * (view.to - view.from), view.to + part * (view.to - view.from));
  const zoom = (factor, px) => {
    const at = Math.min(Math.max((px - timelineGutter) / plot(), 0), 1), time = view.from + at * (view.to - view.from);
    const length = Math.min(Math.max((view.to - view.from) * factor, minView), model.end);
    show(time - at * length, time + (1 - at) * length);
  };
  handleTimeline({box, strip, body, model, view, plot, show, move, zoom, redrawOver});
  timelineControls(view, planned, redraw, () => show(0, model.end));
  showLegend(byId("timeline-legend"), timelineLegend(model));

  /** The place of a measured action, in pixels of the body; used by tests. */
  body.placeOf = (rank, index) => {
    const span = model.ranks[rank].measured[index];
    return {x: timelineGutter + ((span.begin + span.end) / 2 - view.from) / (view.to - view.from) * plot(), y: rank * view.heights.row + 2 + view.heights.measured / 4, name: actionName(span), colour: cssColour(span.colour)};
  };
}

function timelineLegend(model) {
  const kinds = new Set(model.ranks.flatMap((rank) => rank.measured.map((span) => span.kind)));
  const waits = new Set(model.ranks.flatMap((rank) => rank.waits.map((span) => span.colour)));
  const words = {bubble: "waits for what is not made yet", transfer: "waits for what is under way", transport: "waits for room (credit)", data: "waits for its batch", exchange: "waits for experts' rows", reduction: "waits for other replicas"};
  return [...Object.keys(actionKinds).filter((kind) => kinds.has(kind)).map((kind) => [kindOf(kind).colour, "OS".includes(kind) ? kindOf(kind).name : `${kind} ${kindOf(kind).name}`]),
    ...Object.keys(words).filter((colour) => waits.has(colour)).map((colour) => [colour, words[colour]])];
}

function timelineControls(view, planned, redraw, whole) {
  const check = (text, name) => {
    const input = html("input", {type: "checkbox", checked: view.show[name], onchange: () => { view.show[name] = input.checked; redraw(); }});
    return html("label", {}, input, text);
  };
  const tall = html("input", {type: "range", min: 0.7, max: 3, step: 0.1, value: 1, oninput: () => { view.tall = Number(tall.value); redraw(); }});
  byId("timeline-controls").append(planned ? check("planned", "plan") : "", check("waits", "waits"), html("label", {}, "row height", tall), html("button", {type: "button", onclick: whole}, "Whole step"));
}

function handleTimeline({box, strip, body, model, view, plot, show, move, zoom, redrawOver}) {
  let scrolled = 0, drag = null;
  addEventListener("scroll", () => { scrolled = performance.now(); }, {passive: true});
  box.addEventListener("wheel", (event) => {
    // If the page is being scrolled past the chart, it continues to scroll; so it does if the chart is already zoomed out.
    const whole = view.to - view.from >= model.end, sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (performance.now() - scrolled < 250 || (whole && (sideways || event.deltaY > 0)) || event.ctrlKey) return;
    event.preventDefault();
    if (sideways) move((event.deltaX || event.deltaY) / 800);
    else zoom(Math.exp(Math.min(Math.max(event.deltaY, -300), 300) / 400), event.offsetX);
  }, {passive: false});

  body.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.offsetX < timelineGutter) return;
    body.setPointerCapture(event.pointerId);
    drag = {x: event.offsetX, from: view.from, to: view.to, moves: event.shiftKey};
    hideTooltip();
  });
  body.addEventListener("pointermove", (event) => {
    if (drag?.moves) {
      const shift = (drag.x - event.offsetX) / plot() * (drag.to - drag.from);
      return show(drag.from + shift, drag.to + shift);
    }
    if (drag) {
      const limit = Math.min(Math.max(event.offsetX, timelineGutter), timelineGutter + plot());
      view.mark = Math.abs(limit - drag.x) > 3 ? [drag.x, limit] : null;
      return redrawOver();
    }
    const span = spanAt(model, view, plot(), event.offsetX, event.offsetY);
    if (span !== view.hover) { view.hover = span; redrawOver(); }
    if (span) showTooltip(event, spanText(span)[0], span.colour, spanText(span)[1]);
    else hideTooltip();
  });
  const release = () => {
    if (view.mark) {
      const time = (px) => drag.from + (px - timelineGutter) / plot() * (drag.to - drag.from);
      show(time(Math.min(...view.mark)), time(Math.max(...view.mark)));
    }
    drag = view.mark = null;
    redrawOver();
  };
  body.addEventListener("pointerup", release);
  body.addEventListener("pointercancel", () => { view.mark = null; release(); });
  body.addEventListener("pointerleave", () => { hideTooltip(); view.hover = null; redrawOver(); });
  body.addEventListener("dblclick", () => show(0, model.end));
  body.addEventListener("keydown", (event) => {
    const middle = timelineGutter + plot() / 2;
    const keys = {"+": () => zoom(0.7, middle), "=": () => zoom(0.7, middle), "-": () => zoom(1 / 0.7, middle), "0": () => show(0, model.end), ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2)};
    if (event.ctrlKey || event.metaKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });

  // On the strip, dragging moves the visible range.
  const centre = (event) => {
    const time = (event.offsetX - timelineGutter) / plot() * model.end, half = (view.to - view.from) / 2;
    show(time - half, time + half);
  };
  strip.addEventListener("pointerdown", (event) => { strip.setPointerCapture(event.pointerId); centre(event); });
  strip.addEventListener("pointermove", (event) => { if (event.buttons & 1) centre(event); });
}
