// Formats numbers with their units.

const thinSpace = "\u2009";

function isNumber(value) { return typeof value === "number" && Number.isFinite(value); }

/** Three or four significant digits without an exponent: 812, 81.2, 8.12, 0.812. */
function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 || value === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

function withPrefix(value, base, prefixes, unit) {
  if (!isNumber(value)) return "–";
  let index = 0;
  for (let size = Math.abs(value); size >= base && index + 1 < prefixes.length; size /= base) ++index;
  const part = value / base ** index;
  const text = Number.isInteger(part) ? String(part) : digits(part);
  return text + (prefixes[index] + unit ? thinSpace + prefixes[index] + unit : "");
}

/** A duration or a moment in milliseconds: µs below 0.1 ms, s from 10000 ms on. */
function timeText(ms) {
  if (!isNumber(ms)) return "–";
  const size = Math.abs(ms);
  if (size >= 1e4) return (ms / 1000).toFixed(size >= 1e5 ? 1 : 2) + thinSpace + "s";
  if (size >= 100) return ms.toFixed(1) + thinSpace + "ms";
  if (size >= 0.1) return ms.toFixed(2) + thinSpace + "ms";
  return (ms * 1000).toFixed(size >= 0.01 || ms === 0 ? 0 : 1) + thinSpace + "µs";
}

/** A difference of times, with its sign. */
function signedTime(ms) { return (ms > 0 ? "+" : ms < 0 ? "−" : "±") + timeText(Math.abs(ms)); }

/** Milliseconds for a column of numbers: always the same unit and decimals, so that the decimal points are aligned. */
function msColumn(ms) { return isNumber(ms) ? ms.toFixed(2) : "–"; }

function countText(value, unit = "") { return withPrefix(value, 1000, ["", "k", "M", "G", "T", "P"], unit); }
function flopsText(perSecond) { return countText(perSecond, "FLOP/s"); }
function bandwidthText(perSecond) { return countText(perSecond, "B/s"); }
function bytesText(bytes) { return withPrefix(bytes, 1024, ["", "Ki", "Mi", "Gi", "Ti"], "B"); }
function shareText(part, decimals = 1) { return isNumber(part) ? (100 * part).toFixed(decimals) + thinSpace + "%" : "–"; }

/** `part` as a percentage of `whole`; empty if that is undefined. */
function ratio(part, whole) { return isNumber(part) && isNumber(whole) && whole > 0 ? part / whole : null; }
