// How the clocks of the processes were brought together, and how far that may be off.

function showClocks(profile) {
  const clocks = profile.clocks ?? [], ranksOf = (process) => (profile.ranks ?? []).filter((rank) => rank.process === process).map((rank) => rank.rank);
  if (!clocks.length) return void byId("clocks").append(sentence("No clocks were compared."));
  const micro = (ms) => isNumber(ms) ? (1000 * ms).toFixed(1) : "–";
  const span = (ranks) => !ranks.length ? "–" : ranks.length === 1 ? String(ranks[0]) : `${ranks[0]}–${ranks.at(-1)}`;
  byId("clocks").append(plainTable([["process", "number"], ["host", ""], ["ranks", "number"], ["offset, µs", "number"], ["at most wrong by, µs", "number"]],
    clocks.map((clock) => [String(clock.process), clock.host, span(ranksOf(clock.process)), micro(clock.offset_ms), micro(clock.bound_ms)])));
}
