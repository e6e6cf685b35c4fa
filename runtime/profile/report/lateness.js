// The ten costliest reasons for lateness, the costliest first.

function showLateness(profile) {
  const list = profile.lateness ?? [], box = byId("lateness");
  for (const line of profile.layout_cost?.text ?? []) box.append(html("p", {class: "layout-cost"}, line[0].toUpperCase() + line.slice(1) + "."));
  if (!list.length) return void box.append(sentence("Nothing was later than planned."));
  const most = Math.max(...list.map((entry) => entry.cost)), step = profile.prediction?.measured_duration ?? profile.timeline?.duration;
  box.append(html("div", {class: "lateness"}, list.map((entry) => [
    html("span", {class: "cost"}, timeText(entry.cost)),
    html("div", {title: isNumber(step) ? `${shareText(entry.cost / step)} of the step` : ""}, html("div", {class: "bar", style: `width: ${(100 * entry.cost / most).toFixed(1)}%`})),
    html("span", {}, entry.what, ...(isNumber(entry.stage) && entry.stage >= 0 && profile.operations?.some((operation) => operation.stage === entry.stage)
      ? [" ", html("button", {type: "button", class: "link", onclick: () => { chooseStage(String(entry.stage)); byId("operations-section").scrollIntoView({behavior: "smooth"}); }}, "its operations")] : [])),
  ])));
}
