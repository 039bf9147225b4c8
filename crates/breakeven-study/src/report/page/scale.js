// Logarithmic scales and where their ticks lie.

// A function from value to pixel; what lies outside of the interval, such as an interval's end, is drawn at its border.
function logScale([low, high], from, to) {
  const start = Math.log(low);
  const length = Math.log(high) - start;
  return (value) => from + ((Math.log(Math.min(Math.max(value, low), high)) - start) / length) * (to - from);
}

// The interval that holds all positive values with some room around; `null` if there are none.
function intervalOf(values, room) {
  let low = Infinity;
  let high = 0;
  for (const value of values) {
    if (!isNumber(value) || value <= 0) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (high === 0) return null;
  const decades = Math.log10(high / low);
  const margin = 10 ** Math.max(decades * (room || 0.05), 0.04);
  return decades < 0.3 ? [low / 2 / margin, high * 2 * margin] : [low / margin, high * margin];
}

function multiplesWithin([low, high], multiples) {
  const found = [];
  for (let decade = Math.floor(Math.log10(low)); decade <= Math.ceil(Math.log10(high)); decade += 1) {
    for (const multiple of multiples) {
      const value = Number((multiple * 10 ** decade).toPrecision(6));
      if (value >= low && value <= high) found.push(value);
    }
  }
  return found;
}

// Round values within the interval, at most `most`: powers of ten where there are enough of them.
function ticksOf(interval, most) {
  const tens = multiplesWithin(interval, [1]);
  const fine = [[1, 2, 5], [1, 2, 3, 5, 7]].map((multiples) => multiplesWithin(interval, multiples));
  const ticks = tens.length >= 3 ? tens : fine.find((list) => list.length >= 3) || fine[1];
  const step = Math.ceil(ticks.length / Math.max(most, 2));
  return ticks.filter((_, index) => index % step === 0);
}
