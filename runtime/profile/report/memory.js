// The planned memory of every rank, and the memory of one rank over time with its composition at the peak.

function peakOf(timeline) { return (timeline ?? []).reduce((most, point) => (most === null || point[1] > most[1] ? point : most), null); }

function drawMemoryRanks(profile, state, width) {
  const many = profile.memory.length > 20, high = many ? 12 : 20, pitch = many ? 17 : 28, left = 70, right = 150, head = 40;
  const most = Math.max(...profile.memory.flatMap((rank) => [rank.planned_bytes ?? 0, rank.resident_bytes ?? 0])), plot = Math.max(80, width - left - right);
  const picture = svg("svg", {height: head + profile.memory.length * pitch + 22, role: "img", "aria-label": "Memory by rank"});
  const bar = svg("rect", {x: left, y: 3, width: 12, height: 10, fill: "var(--accent)"}), mark = svg("rect", {x: left + 90, y: 1, width: 2.5, height: 14, fill: "var(--text)"});
  picture.append(bar, svgText(left + 17, 12, "planned"), mark, svgText(left + 98, 12, "resident, of the process"), svgText(left + plot + 74, 32, "planned", "quiet end"), svgText(width - 2, 32, "resident", "quiet end"));
  for (const value of byteTicks(most, 4)) {
    const x = left + plot * value / most;
    picture.append(svg("line", {x1: x, x2: x, y1: head - 4, y2: head + profile.memory.length * pitch, class: "grid"}), svgText(x, head + profile.memory.length * pitch + 14, bytesText(value), "middle quiet"));
  }
  profile.memory.forEach((rank, row) => {
    const y = head + row * pitch, middle = y + high / 2 + 4;
    if (row === state.rank) picture.append(svg("rect", {x: 0, y: y - (pitch - high) / 2, width, height: pitch, fill: "var(--accent-soft)"}));
    picture.append(svgText(left - 8, middle, `rank ${rank.rank}`, row === state.rank ? "end strong" : "end"), svg("rect", {x: left, y, width: plot * (rank.planned_bytes ?? 0) / most, height: high, fill: "var(--accent)"}));
    if (rank.resident_bytes > 0) picture.append(svg("rect", {x: left + plot * rank.resident_bytes / most - 1, y: y - 2, width: 2.5, height: high + 4, fill: "var(--text)"}));
    picture.append(svgText(left + plot + 74, middle, bytesText(rank.planned_bytes), "end"), svgText(width - 2, middle, rank.resident_bytes > 0 ? bytesText(rank.resident_bytes) : "–", "end"));
    const hit = svg("rect", {x: 0, y: y - (pitch - high) / 2, width, height: pitch, fill: "transparent", style: "cursor: pointer", tabindex: 0, role: "button", "aria-label": `rank ${rank.rank}`,
      onclick: () => state.choose(row), onkeydown: (event) => { if (event.key === "Enter") state.choose(row); }});
    picture.append(hit);
  });
  byId("memory-ranks").replaceChildren(html("h3", {}, "By rank"), picture, sentence("Click a rank to see it over time."));
}

function drawMemoryCurve(profile, state, width) {
  const rank = profile.memory[state.rank], box = byId("memory-curve"), points = rank.timeline ?? [], peak = peakOf(points);
  byId("memory-title").textContent = `Rank ${rank.rank} over time: what is alive`;
  if (!peak) return void box.replaceChildren(sentence("This rank has no record over time."));
  const left = 84, right = 14, top = 26, bottom = 38, height = 250, plot = width - left - right, high = height - top - bottom;
  // Times are relative to the begin of the step in the timeline, if the record is of that step.
  const first = profile.steps.find((step) => step.step === profile.timeline?.step), ofStep = first && points[0][0] >= first.begin && points[0][0] < first.begin + first.duration;
  const start = ofStep ? first.begin : points[0][0], end = Math.max(points.at(-1)[0], start + 1e-6), most = peak[1] * 1.05 || 1;
  const x = (time) => left + plot * (time - start) / (end - start), y = (bytes) => top + high * (1 - bytes / most);
  const picture = svg("svg", {height, role: "img", "aria-label": `Memory of rank ${rank.rank} over time`});
  for (const value of byteTicks(most, 5)) picture.append(svg("line", {x1: left, x2: left + plot, y1: y(value), y2: y(value), class: "grid"}), svgText(left - 8, y(value) + 4, bytesText(value), "end quiet"));
  const marks = ticks(0, end - start, Math.max(2, Math.floor(plot / 100)));
  for (const value of marks) picture.append(svgText(x(start + value), height - bottom + 16, tickTime(value, marks.length > 1 ? marks[1] : end - start, end - start), "middle quiet"));
  picture.append(svgText(left + plot / 2, height - 4, ofStep ? `time in step ${first.step}` : "time of the record", "middle quiet"));
  // The number of bytes is constant until the next point: a step function.
  let line = `M${x(points[0][0])},${y(points[0][1])}`;
  for (let index = 1; index < points.length; ++index) line += `H${x(points[index][0]).toFixed(2)}V${y(points[index][1]).toFixed(2)}`;
  picture.append(svg("path", {d: `${line}V${y(0)}H${x(points[0][0])}Z`, fill: "var(--accent-soft)"}), svg("path", {d: line, fill: "none", stroke: "var(--accent)", "stroke-width": 1.5}));
  const near = x(peak[0]) > left + plot * 0.6 ? "end" : "";
  picture.append(svg("circle", {cx: x(peak[0]), cy: y(peak[1]), r: 4, fill: "var(--text)"}), svgText(x(peak[0]) + (near ? -7 : 7), y(peak[1]) - 8, `peak ${bytesText(peak[1])} at ${timeText(peak[0] - start)}`, `strong halo ${near}`));
  picture.append(svg("rect", {x: left, y: top, width: plot, height: high, fill: "transparent", onpointerleave: hideTooltip, onpointermove: (event) => {
    const time = start + (event.offsetX - left) / plot * (end - start), point = points.findLast((one) => one[0] <= time) ?? points[0];
    showTooltip(event, `rank ${rank.rank} at ${timeText(time - start)}`, null, [["alive", bytesText(point[1])], ["of the peak", shareText(point[1] / peak[1])]]);
  }}));
  box.replaceChildren(picture);
}

function drawMemoryTables(profile, state) {
  const rank = profile.memory[state.rank];
  const table = (title, rows) => {
    const whole = sum(rows.map((row) => row[1]));
    return html("div", {}, html("h3", {}, title), rows.length ? plainTable([["", ""], ["bytes", "number"], ["share", "number"]], rows.map(([name, bytes]) => [name, bytesText(bytes), shareText(ratio(bytes, whole))])) : sentence("Not recorded."));
  };
  byId("memory-tables").replaceChildren(table("Alive at the peak", rank.at_peak ?? []), table("Planned, by section", rank.sections ?? []));
}

function showMemory(profile) {
  if (!profile.memory?.length) return void byId("memory-ranks").append(sentence("This profile has no memory record."));
  const peaks = profile.memory.map((rank) => peakOf(rank.timeline)?.[1] ?? rank.planned_bytes ?? 0);
  const state = {rank: peaks.indexOf(Math.max(...peaks)), choose(rank) { state.rank = rank; redraw(); }};
  const ranks = watchWidth(byId("memory-ranks"), (width) => drawMemoryRanks(profile, state, width)), curve = watchWidth(byId("memory-curve"), (width) => drawMemoryCurve(profile, state, width));
  const redraw = () => { ranks(); curve(); drawMemoryTables(profile, state); };
  drawMemoryTables(profile, state);
}
