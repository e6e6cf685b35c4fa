// The positions of an axis's ticks.

/** Round numbers between `low` and `high`, about `count` of them. */
function ticks(low, high, count) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, count), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * (1 - 1e-9));
  const result = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high * (1 + 1e-12) + step * 1e-9; ++index) result.push(index * step);
  return result;
}

/** Powers of ten from `low` to `high`. */
function decades(low, high) {
  const result = [];
  for (let power = Math.ceil(Math.log10(low) - 1e-9); power <= Math.log10(high) + 1e-9; ++power) result.push(10 ** power);
  return result;
}

/** Sizes in bytes: powers of two times 1 or 1.5 would be odd; halves, quarters and whole binary units are not. */
function byteTicks(high, count) {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log2(Math.max(1, high)) / 10));
  return ticks(0, high / unit, count).map((value) => value * unit);
}

/** A time on an axis up to `largest`, all in one unit, with as many decimals as the tick distance needs. */
function tickTime(ms, step, largest) {
  if (ms === 0) return "0";
  const [factor, unit] = largest >= 1e4 ? [0.001, "s"] : largest >= 0.1 ? [1, "ms"] : [1000, "µs"];
  return (ms * factor).toFixed(Math.max(0, -Math.floor(Math.log10(step * factor) + 1e-9))) + thinSpace + unit;
}
