// The timeline's boxes: what each rank did, waited for and was planned to do, in milliseconds from the begin of the step.

/** The name of an action as in schedules and traces: "2F3". */
function actionName(span) {
  const one = (value) => isNumber(value) && value >= 0 ? value : "";
  return "OS".includes(span.kind) ? kindOf(span.kind).name : `${one(span.stage)}${span.kind}${one(span.microbatch)}`;
}

/** The two halves of an overlapped pair have the same time, so each gets half the height (half 1 above, 2 below; 0 otherwise). */
function markPairs(spans) {
  for (let index = 1; index < spans.length; ++index) {
    const one = spans[index - 1], two = spans[index];
    if (one.half === 0 && two.begin < one.end - 1e-9 && two.begin - one.begin < 1e-9 + 0.01 * (one.end - one.begin)) [one.half, two.half] = [1, 2];
  }
}

function actionSpans(list, rank, origin, lane) {
  const spans = list.map(([kind, stage, microbatch, begin, end]) =>
    ({lane, rank, kind, stage, microbatch, begin: begin - origin, end: end - origin, colour: kindOf(kind).colour, half: 0}));
  spans.sort((one, two) => one.begin - two.begin);
  markPairs(spans);
  return spans;
}

/** A wait for a boundary is two boxes: until it is produced, and while it is in transfer. */
function waitSpans(list, rank, origin) {
  const spans = [];
  for (const [wait, stage, microbatch, begin, end, peer, produced] of list) {
    const whole = {lane: "wait", rank, wait, stage, microbatch, peer, produced: isNumber(produced) ? produced - origin : null, from: begin - origin, to: end - origin, half: 0};
    const made = whole.produced === null ? whole.to : Math.min(Math.max(whole.produced, whole.from), whole.to);
    if (made > whole.from) spans.push({...whole, begin: whole.from, end: made, colour: waitOf(wait).colour});
    if (whole.to > made) spans.push({...whole, begin: made, end: whole.to, colour: "transfer"});
  }
  return spans.sort((one, two) => one.begin - two.begin);
}

function earliest(lists) { return Math.min(...lists.map((list) => list.reduce((least, entry) => Math.min(least, entry[3]), Infinity))); }

/** {ranks: [{measured, planned, waits}], duration, predicted, tokens(span)}. The planned step begins where the measured one does. */
function timelineModel(profile) {
  const {measured, planned, waits, sends, step, duration, predicted} = profile.timeline;
  const first = profile.steps.find((one) => one.step === step);
  const origin = first ? first.begin : earliest(measured);
  const plannedOrigin = earliest(planned ?? []);
  const ranks = measured.map((list, rank) => ({
    measured: actionSpans(list, rank, origin, "measured"),
    planned: actionSpans(planned?.[rank] ?? [], rank, plannedOrigin, "planned"),
    waits: waitSpans(waits?.[rank] ?? [], rank, origin),
  }));
  for (const {measured: done, planned: wanted} of ranks) {
    const key = (span) => `${span.kind} ${span.stage} ${span.microbatch}`;
    const plan = new Map(wanted.map((span) => [key(span), span]));
    for (const span of done) span.plan = plan.get(key(span));
  }
  const tokens = (sends ?? []).map(([from, to, kind, microbatch, stage, produced, used]) =>
    ({from, to, kind, microbatch, stage, consumer: kind === "F" ? stage + 1 : stage - 1, produced: produced - origin, used: used - origin}));
  return {ranks, duration, predicted, end: Math.max(duration ?? 0, predicted ?? 0), tokens: tokensOf(tokens)};
}

/** By action: its inputs and its outputs. */
function tokensOf(tokens) {
  const made = new Map(), used = new Map();
  const add = (map, key, token) => map.set(key, [...(map.get(key) ?? []), token]);
  for (const token of tokens) {
    add(made, `${token.from} ${token.kind} ${token.stage} ${token.microbatch}`, token);
    add(used, `${token.to} ${token.kind} ${token.consumer} ${token.microbatch}`, token);
  }
  return (span) => {
    if (span.lane !== "measured" || !"FIB".includes(span.kind)) return {made: [], used: []};
    const key = `${span.rank} ${span.kind === "F" ? "F" : "B"} ${span.stage} ${span.microbatch}`;
    return {made: made.get(key) ?? [], used: used.get(key) ?? []};
  };
}

/** Index of the first span that ends after `time`; spans overlap only in pairs. */
function firstAfter(spans, time) {
  let low = 0, high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle].end <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** How many ranks compute in each of `bins` equal parts of the step, 0…ranks. */
function computingRanks(model, bins) {
  const busy = new Float64Array(bins), width = model.end / bins;
  for (const {measured} of model.ranks)
    for (const span of measured) {
      if (span.half === 2) continue;
      for (let bin = Math.max(0, Math.floor(span.begin / width)); bin < bins && bin * width < span.end; ++bin)
        busy[bin] += Math.max(0, Math.min(span.end, (bin + 1) * width) - Math.max(span.begin, bin * width)) / width;
    }
  return busy;
}
