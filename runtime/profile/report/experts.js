// Tokens per router and expert as a heat map, with how even each router's choices were. Hidden for a model without experts.

/** The colour of an expert with `share` times an even share: cold at 0, neutral at 1, hot from 4 on. */
function heatColour(share) {
  const part = share < 1 ? 1 - share : Math.min(1, Math.log2(share) / 2);
  return `color-mix(in srgb, var(--${share < 1 ? "cold" : "hot"}) ${(100 * part).toFixed(1)}%, var(--even))`;
}

function drawExperts(routers, width) {
  const most = Math.max(...routers.map((router) => router.tokens.length)), row = routers.length > 32 ? 12 : 22, left = 84, right = 330, bottom = 22;
  const plot = Math.max(120, width - left - right), size = plot / most, height = routers.length * row + bottom, gap = size > 6 ? 1 : 0;
  const picture = svg("svg", {height, role: "img", "aria-label": "Tokens per router and expert"});
  routers.forEach((router, index) => {
    const total = sum(router.tokens), y = index * row;
    picture.append(svgText(left - 8, y + row / 2 + 4, router.name, "end quiet"));
    router.tokens.forEach((tokens, expert) => {
      const share = total > 0 ? tokens * router.tokens.length / total : 0;
      picture.append(explain(svg("rect", {x: left + expert * size, y, width: Math.max(0.5, size - gap), height: row - 2, fill: heatColour(share)}),
        `${router.name}, expert ${expert}`, null, [["tokens", `${tokens} of ${total}`], ["of an even share", share.toFixed(2)]]));
    });
    const dropped = router.dropped > 0 ? `, ${countText(router.dropped)} dropped` : "";
    picture.append(svgText(left + plot + 10, y + row / 2 + 4, `entropy ${router.entropy.toFixed(3)}, even ${shareText(router.evenness)}; expert ${router.hottest} has ${shareText(router.hottest_share)}${dropped}`, "quiet"));
  });
  for (const expert of ticks(0, most - 1, Math.min(most, 16)).filter((tick) => Number.isInteger(tick) && tick >= 0 && tick < most))
    picture.append(svgText(left + (expert + 0.5) * size, height - 6, String(expert), "middle quiet"));
  byId("experts").replaceChildren(picture);
}

function showExperts(profile) {
  byId("experts-section").hidden = !profile.experts?.length;
  if (!profile.experts?.length) return;
  showLegend(byId("experts-legend"), [["cold", "fewer tokens than an even share"], ["even", "an even share"], ["hot", "more, up to four times and above"]]);
  watchWidth(byId("experts"), (width) => drawExperts(profile.experts, width));
}
