// The head of the page: the run and its most important numbers.

function sum(numbers) { return numbers.reduce((total, value) => total + (isNumber(value) ? value : 0), 0); }
function mean(numbers) {
  const known = numbers.filter(isNumber);
  return known.length ? sum(known) / known.length : null;
}

/** The share of all ranks' wall time, over all steps, of the causes that `accepts` accepts. */
function shareOfCauses(profile, accepts) {
  let part = 0, wall = 0;
  for (const step of profile.steps)
    step.ranks.forEach((causes, rank) => {
      wall += step.wall[rank];
      causes.forEach((ms, index) => { if (accepts(profile.causes[index])) part += ms; });
    });
  return ratio(part, wall);
}

function showSummary(profile) {
  const {run, steps} = profile;
  byId("run-line").textContent = [run.kind, run.model, isNumber(run.parameters) && countText(run.parameters) + " parameters", run.dtype,
    `${run.schedule} on ${run.ranks} ranks in ${run.processes} process${run.processes === 1 ? "" : "es"}`, `${run.microbatches} microbatches`,
    `${steps.length} step${steps.length === 1 ? "" : "s"} profiled`].filter(Boolean).join(" · ");
  // Utilisations of steps are averaged by their inverse, which is proportional to time: the result is that of the mean step.
  const duration = mean(steps.map((step) => step.duration)), predicted = mean(steps.map((step) => step.predicted));
  const mfu = ratio(1, mean(steps.map((step) => isNumber(step.mfu) && step.mfu > 0 ? 1 / step.mfu : null))), loss = steps.map((step) => step.loss).filter(isNumber).at(-1);
  const tiles = [
    ["step", timeText(duration), `mean of ${steps.length}`],
    ["planned step", timeText(predicted), isNumber(predicted) && isNumber(duration) ? `measured ${signedTime(duration - predicted)}` : ""],
    ["computing", shareText(shareOfCauses(profile, (cause) => computeCauses.has(cause))), "of the ranks' time"],
    ["bubble", shareText(shareOfCauses(profile, (cause) => cause === "bubble")), "of the ranks' time"],
    ["imbalance", shareText(shareOfCauses(profile, (cause) => cause === "imbalance")), "of the ranks' time"],
    ["MFU", isNumber(mfu) ? shareText(mfu) : null, "of the matmul peak"],
    ["tokens", isNumber(duration) && duration > 0 && isNumber(run.tokens_per_step) ? countText(run.tokens_per_step / duration * 1000, "/s") : null, `${countText(run.tokens_per_step)} a step`],
    ["loss", isNumber(loss) ? loss.toFixed(4) : null, "nats per token, last"],
  ];
  byId("summary").replaceChildren(...tiles.filter(([, value]) => value && value !== "–").map(([name, value, note]) =>
    html("div", {class: "tile"}, html("span", {class: "name"}, name), html("b", {}, value), html("span", {}, note))));
}

function showFacts(profile) {
  const {run, machine, prediction} = profile;
  const facts = [
    ["model", run.model], ["kind of run", run.kind], ["parameters", countText(run.parameters)], ["dtype", run.dtype], ["schedule", run.schedule],
    ["ranks", run.ranks], ["processes", run.processes], ["stages", run.stages], ["microbatches", run.microbatches], ["threads per rank", run.threads],
    ["tokens per step", countText(run.tokens_per_step)], ["FLOPs per step", countText(run.flops_per_step)],
    ["matmul peak of a rank", flopsText(machine?.peak_flops)], ["memory bandwidth of a rank", bandwidthText(machine?.memory_bandwidth)],
    ["step planned", timeText(prediction?.duration)], ["step measured", timeText(prediction?.measured_duration)],
    ["idle planned", timeText(prediction?.bubble)], ["idle measured", timeText(prediction?.measured_bubble)],
    ["planned from", prediction?.source, "wide"], ["build", run.build, "wide"], ["layout", run.layout, "wide"],
  ];
  byId("run-facts").replaceChildren(...facts.filter(([, value]) => value !== undefined && value !== null && value !== "–")
    .map(([name, value, kind]) => html("div", {class: kind ?? ""}, html("dt", {}, name), html("dd", {}, String(value)))));
}
