// How numbers are said: three digits, and the unit that a person would choose.

const TIME_UNITS = [[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]];
const PREFIXES = [[1, ""], [1e3, "k"], [1e6, "M"], [1e9, "G"], [1e12, "T"], [1e15, "P"]];

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

function withCommas(value) {
  return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

function threeDigits(value) {
  if (value === 0) return "0";
  return Math.abs(value) >= 1000 ? withCommas(value) : String(Number(value.toPrecision(3)));
}

// The largest unit in which the value, as it will be printed, is at least 1.
function inUnits(value, units) {
  const shown = Number(Math.abs(value).toPrecision(3));
  const [size, name] = units.findLast(([size]) => shown >= size) || units[0];
  return [threeDigits(value / size), name];
}

function timeText(ns) {
  return isNumber(ns) ? inUnits(ns, TIME_UNITS).join(" ") : "–";
}

function rateText(perSecond, unit) {
  if (!isNumber(perSecond)) return "–";
  const [digits, prefix] = inUnits(perSecond, PREFIXES);
  return `${digits} ${prefix}${unit}`;
}

function bytesText(bytes) {
  return isNumber(bytes) ? rateText(bytes, "B") : "–";
}

function countText(count) {
  return isNumber(count) ? withCommas(count) : "–";
}

// A count that was computed, not counted: more than three digits would claim too much.
function aboutText(count) {
  return isNumber(count) ? withCommas(Number(count.toPrecision(3))) : "–";
}

// A count on an axis.
function shortText(count) {
  return inUnits(count, PREFIXES).join("");
}

function percentText(share) {
  return isNumber(share) ? `${Number((share * 100).toPrecision(2))}%` : "–";
}

function timesText(factor) {
  return isNumber(factor) ? `${threeDigits(factor)}×` : "–";
}

function plural(count, one, many) {
  return `${countText(count)} ${count === 1 ? one : many || `${one}s`}`;
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function listText(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`;
}
