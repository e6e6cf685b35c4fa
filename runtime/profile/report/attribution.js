// The wall time of each rank, or of each step, by cause: bars whose parts add up to it.

/** Bars [{name, causes: ms by cause, wall}] of the chosen view; a step's bar is the mean of its ranks. */
function attributionBars(profile, view) {
  const meanOf = (lists) => profile.causes.map((_, index) => mean(lists.map((list) => list[index])));
  if (view.by === "step")
    return profile.steps.map((step) => view.rank === "all" ? {name: `step ${step.step}`, causes: meanOf(step.ranks), wall: mean(step.wall)}
      : {name: `step ${step.step}`, causes: step.ranks[view.rank], wall: step.wall[view.rank]});
  const steps = view.step === "all" ? profile.steps : profile.steps.filter((step) => String(step.step) === view.step);
  const bars = (profile.ranks ?? steps[0].ranks).map((_, rank) => ({name: `rank ${rank}`, causes: meanOf(steps.map((step) => step.ranks[rank])), wall: mean(steps.map((step) => step.wall[rank]))}));
  return bars.length > 1 ? [{name: "all ranks", causes: meanOf(bars.map((bar) => bar.causes)), wall: mean(bars.map((bar) => bar.wall)), total: true}, ...bars] : bars;
}

/** The causes with any time in the profile, in order: [index, name]. */
function presentCauses(profile) {
  return profile.causes.map((cause, index) => [index, cause]).filter(([index]) => profile.steps.some((step) => step.ranks.some((rank) => rank[index] > 0)));
}

function drawAttribution(profile, view, width) {
  const bars = attributionBars(profile, view), many = bars.length > 20;
  const high = many ? 13 : 24, pitch = many ? 17 : 31, left = 80, right = 170, head = 22;
  const most = Math.max(...bars.map((bar) => bar.wall)), plot = Math.max(120, width - left - right);
  const computing = (bar) => profile.causes.reduce((total, cause, index) => total + (computeCauses.has(cause) ? bar.causes[index] : 0), 0);
  const picture = svg("svg", {height: head + bars.length * pitch + 24, role: "img", "aria-label": "Time by cause"});
  picture.append(svgText(left + plot + 90, 14, "wall time", "quiet end"), svgText(width - 2, 14, "computing", "quiet end"));
  const whole = view.unit === "share" ? 1 : most, marks = ticks(0, whole, Math.max(2, Math.min(8, Math.floor(plot / 70))));
  for (const mark of marks) {
    const x = left + plot * mark / whole;
    picture.append(svg("line", {x1: x, x2: x, y1: head - 2, y2: head + bars.length * pitch, class: "grid"}),
      svgText(x, head + bars.length * pitch + 15, view.unit === "share" ? shareText(mark, 0) : tickTime(mark, marks[1] - marks[0], whole), "middle quiet"));
  }
  bars.forEach((bar, row) => {
    const y = head + row * pitch, scale = plot / (view.unit === "share" ? bar.wall : most), middle = y + high / 2 + 4;
    picture.append(svgText(left - 8, middle, bar.name, bar.total ? "end strong" : "end"), svgText(left + plot + 90, middle, timeText(bar.wall), "end"),
      svgText(width - 2, middle, shareText(ratio(computing(bar), bar.wall)), "end"));
    let x = left;
    const rows = presentCauses(profile).map(([index, cause]) => [causeName(cause), `${timeText(bar.causes[index])}   ${shareText(bar.causes[index] / bar.wall)}`]);
    profile.causes.forEach((cause, index) => {
      const length = Math.max(0, bar.causes[index]) * scale;
      if (length < 0.05) return;
      const colour = causeColour(cause);
      picture.append(explain(svg("rect", {x, y, width: Math.max(0.3, length - (length > 4 ? 1 : 0)), height: high, fill: `var(--${colour})`}),
        `${bar.name}: ${causeName(cause)} ${timeText(bar.causes[index])}`, colour, rows));
      if (length > 40) picture.append(svg("text", {x: x + (length - 1) / 2, y: middle, class: "middle", style: `fill: var(--on-${colour}); font-size: ${many ? 11 : 12}px; pointer-events: none`},
        view.unit === "share" ? shareText(bar.causes[index] / bar.wall, length > 46 ? 1 : 0) : length > 56 ? timeText(bar.causes[index]) : ""));
      x += length;
    });
    if (bar.total) picture.append(svg("line", {x1: 0, x2: width, y1: y + (high + pitch) / 2, y2: y + (high + pitch) / 2, class: "axis"}));
  });
  byId("attribution").replaceChildren(picture);
  const present = presentCauses(profile);
  byId("attribution-table").replaceChildren(plainTable([["", ""], ["wall, ms", "number"], ...present.map(([, cause]) => [`${causeName(cause)}, ms`, "number"])],
    bars.map((bar) => [bar.name, msColumn(bar.wall), ...present.map(([index]) => msColumn(bar.causes[index]))])));
}

function showAttribution(profile) {
  if (!profile.steps.length) return void byId("attribution").append(sentence("This profile has no steps."));
  const view = {by: "rank", step: "all", rank: "all", unit: "time"};
  const redraw = watchWidth(byId("attribution"), (width) => drawAttribution(profile, view, width));
  const change = (name) => (value) => {
    view[name] = value;
    steps.hidden = view.by !== "rank";
    ranks.hidden = view.by !== "step";
    redraw();
  };
  const steps = selectBox("of", [["all", "all steps (mean)"], ...profile.steps.map((step) => [String(step.step), `step ${step.step}`])], "all", change("step"));
  const ranks = selectBox("of", [["all", "all ranks (mean)"], ...profile.steps[0].ranks.map((_, rank) => [String(rank), `rank ${rank}`])], "all", change("rank"));
  ranks.hidden = true;
  byId("attribution-controls").append(choiceButtons([["rank", "By rank"], ["step", "By step"]], "rank", change("by"), "Bars"), steps, ranks,
    choiceButtons([["time", "Time"], ["share", "Share"]], "time", change("unit"), "Unit"));
  showLegend(byId("attribution-legend"), presentCauses(profile).map(([, cause]) => [causeColour(cause), causeName(cause)]));
}
