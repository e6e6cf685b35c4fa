// The clock corrections of the processes and their error bounds.

function showClocks(profile) {
  const clocks = profile.clocks ?? [], ranksOf = (process) => (profile.ranks ?? []).filter((rank) => rank.process === process).map((rank) => rank.rank);
  if (!clocks.length) return void byId("clocks").append(sentence("No clocks were compared."));
  const micro = (ms) => isNumber(ms) ? (1000 * ms).toFixed(1) : "–";
  const span = (ranks) => !ranks.length ? "–" : ranks.length === 1 ? String(ranks[0]) : `${ranks[0]}–${ranks.at(-1)}`;
  const columns = [["process", "number", (clock) => String(clock.process)], ["host", "", (clock) => clock.host], ["ranks", "number", (clock) => span(ranksOf(clock.process))],
    ["offset, µs", "number", (clock) => micro(clock.offset_ms)], ["wrong by at most, µs", "number", (clock) => micro(clock.bound_ms)]];
  if (clocks.some((clock) => isNumber(clock.round_trip_ms))) columns.push(["round trip, µs", "number", (clock) => micro(clock.round_trip_ms)]);
  if (clocks.some((clock) => clock.shared)) columns.push(["clock", "", (clock) => clock.process === 0 ? "the measure" : clock.shared ? "the same host's" : "its own"]);
  byId("clocks").append(plainTable(columns.map(([title, kind]) => [title, kind]), clocks.map((clock) => columns.map(([, , text]) => text(clock)))));
}
