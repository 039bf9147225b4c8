// Time against size: one chart for each operation, mode, dtype and run.

const FAILED_MEANINGS = {
  ok: "no time",
  wrong: "wrong result",
  crash: "crashed",
  timeout: "ran out of time",
  lost: "lost the device",
  unsupported: "not supported",
  skipped: "skipped",
};

function spreadOf(cell) {
  return [cell.min_ns, cell.q1_ns, cell.median_ns, cell.p90_ns].filter(isNumber).concat(cell.dots_ns || []);
}

function cellTitle(cell) {
  return `${cell.device}: ${cell.operation}, ${plural(cell.elements, "element")}`;
}

// What a call really did of the `work` that is named: copies by themselves run no kernel, so they do no arithmetic, and their bytes are those copied.
function workOf(cell, work) {
  if (cell.mode !== "copy") return cell[work];
  return work === "bytes" && cell.copied ? cell.copied.upload_bytes + cell.copied.read_bytes : null;
}

function rateFacts(cell) {
  const [seconds, flops, bytes] = [cell.q1_ns / 1e9, workOf(cell, "flops"), workOf(cell, "bytes")];
  return [
    isNumber(flops) && flops > 0 && ["rate", rateText(flops / seconds, "FLOP/s")],
    isNumber(bytes) && bytes > 0 && ["bandwidth", rateText(bytes / seconds, "B/s")],
  ].filter(Boolean);
}

function cellFacts(cell) {
  const facts = [["lower quartile", timeText(cell.q1_ns)]];
  if (cell.interval_ns) facts.push(["95% interval", cell.interval_ns.map(timeText).join(" to ")]);
  facts.push(["fastest", timeText(cell.min_ns)], ["median", timeText(cell.median_ns)]);
  if (isNumber(cell.p90_ns)) facts.push(["90 of 100 within", timeText(cell.p90_ns)]);
  if (isNumber(cell.p99_ns)) facts.push(["99 of 100 within", timeText(cell.p99_ns)]);
  if (isNumber(cell.samples)) facts.push(["samples", cell.dropped ? `${countText(cell.samples)}, ${countText(cell.dropped)} dropped` : countText(cell.samples)]);
  facts.push(...rateFacts(cell));
  if (cell.shape && cell.shape !== String(cell.elements)) facts.push(["shape", cell.shape]);
  if (cell.ran) facts.push(["ran", cell.ran]);
  if (cell.flags && cell.flags.length > 0) facts.push(["doubtful", cell.flags.join(", ")]);
  return facts;
}

// Why a cell has no time, in its own words.
function whyText(cell) {
  return [cell.why, ...(cell.flags || [])].filter(Boolean).join("; ");
}

function failureFacts(cell) {
  const why = whyText(cell);
  return [["outcome", FAILED_MEANINGS[cell.status] || cell.status], why && ["why", why]].filter(Boolean);
}

// Stretches of cells that follow each other in `sizes` without one missing between.
function stretchesOf(cells, sizes) {
  const stretches = [];
  for (const cell of cells) {
    const last = stretches[stretches.length - 1];
    const previous = last && last[last.length - 1];
    if (previous && sizes.indexOf(cell.elements) - sizes.indexOf(previous.elements) <= 1) last.push(cell);
    else stretches.push([cell]);
  }
  return stretches;
}

function linePath(points) {
  return points.map(([x, y], index) => `${index ? "L" : "M"}${round(x)} ${round(y)}`).join("");
}

function bandPath(frame, cells, low, high) {
  const at = (value) => (cell) => [frame.toX(cell.elements), frame.toY(value(cell))];
  return `${linePath([...cells.map(at(low)), ...cells.map(at(high)).reverse()])}z`;
}

// Samples that lie on each other are moved a little to the side, always the same way.
function sideways(index) {
  const fraction = Math.sin((index + 1) * 12.9898) * 43758.5453;
  return (fraction - Math.floor(fraction)) * 12 - 6;
}

function drawSeries(frame, look, cells, sizes) {
  const group = s("g", { class: `series look-${look}` });
  const at = (cell) => [frame.toX(cell.elements), frame.toY(cell.q1_ns)];
  const stretches = stretchesOf(cells, sizes);
  const median = (cell) => cell.median_ns ?? cell.q1_ns;
  for (const stretch of stretches.filter((stretch) => stretch.length > 1)) {
    group.append(
      s("path", { class: "outer", d: bandPath(frame, stretch, (cell) => cell.min_ns ?? cell.q1_ns, (cell) => cell.p90_ns ?? median(cell)) }),
      s("path", { class: "inner", d: bandPath(frame, stretch, (cell) => cell.q1_ns, median) }));
  }
  const dots = cells.flatMap((cell) => (cell.dots_ns || []).map((ns, index) =>
    `M${round(frame.toX(cell.elements) + sideways(index))} ${round(frame.toY(ns))}h0`));
  group.append(
    s("path", { class: "dots", d: dots.join("") }),
    s("path", { class: "line", d: stretches.map((stretch) => linePath(stretch.map(at))).join("") }),
    s("path", { class: "mark", d: cells.map((cell) => markerPath(look, ...at(cell), 4)).join("") }));
  frame.plot.append(group);
}

// Crosses at the foot of the chart, a row for each device: what failed has no time, but a place.
function drawFailures(frame, look, cells, row) {
  const y = frame.bottom - 9 - 12 * row;
  const cross = (cell) => `M${round(frame.toX(cell.elements) - 3.5)} ${y - 3.5}l7 7m0 -7l-7 7`;
  frame.plot.append(s("path", { class: `failed look-${look}`, d: cells.map(cross).join("") }));
  return cells.map((cell) => ({ x: frame.toX(cell.elements), y }));
}

// Each crossing as a line in its interval, with its size above; labels that would touch go to a second row.
function drawCrossings(study, frame, rows) {
  const marks = rows.flatMap((row) => row.crossings.map((crossing) => ({ ...crossing, look: lookOf(study, row.gpu) })));
  const ends = [-Infinity, -Infinity];
  for (const mark of marks.sort((a, b) => a.elements - b.elements)) {
    const [x, low, high] = [mark.elements, mark.low ?? mark.elements, mark.high ?? mark.elements].map(frame.toX);
    const text = aboutText(mark.elements);
    const half = text.length * 3.3;
    const middle = Math.min(Math.max(x, frame.left + half), frame.right - half);
    const row = ends.findIndex((end) => end + 8 < middle - half);
    const strip = { x: round(low), y: frame.top, width: round(Math.max(high - low, 1)), height: frame.bottom - frame.top };
    const group = s("g", { class: `crossing look-${mark.look}` }, s("rect", strip),
      s("line", { x1: round(x), x2: round(x), y1: frame.top, y2: frame.bottom }));
    if (row >= 0) {
      ends[row] = middle + half;
      group.append(s("text", { x: round(middle), y: frame.top - 5 - 12 * row, "text-anchor": "middle" }, text));
    }
    frame.plot.append(group);
  }
}

// The axes of charts that are compared: those of an operation in all runs have the same.
function axesOf(groups) {
  const cells = groups.flatMap((group) => group.items);
  return { x: intervalOf(cells.map((cell) => cell.elements), 0.04), y: intervalOf(cells.filter(isTimed).flatMap(spreadOf)) };
}

function curvesChart(study, group, rows, { x, y }, width) {
  const cells = group.items;
  const timed = cells.filter(isTimed);
  if (timed.length === 0) return h("p", { class: "nothing" }, `No times: ${statusCounts(cells)}.`);
  const sizes = unique(cells.map((cell) => cell.elements)).sort((a, b) => a - b);
  const devices = study.choices.device.filter((device) => cells.some((cell) => cell.device === device));
  const failing = devices.filter((device) => cells.some((cell) => cell.device === device && !isTimed(cell)));
  const frame = makeFrame({
    width,
    height: Math.round(Math.min(340, Math.max(230, width * 0.6))),
    x: { interval: x, text: shortText, title: "elements" },
    y: { interval: [y[0] / (1 + failing.length * 0.5), y[1]], text: timeText, title: "time" },
    label: `${group.operation}, ${modeText(group.mode)}, ${group.dtype}: time against elements. Arrow keys go from point to point.`,
  });
  drawCrossings(study, frame, rows);
  const points = [];
  for (const device of devices) {
    const look = lookOf(study, device);
    const mine = timed.filter((cell) => cell.device === device).sort((a, b) => a.elements - b.elements);
    if (mine.length > 0) drawSeries(frame, look, mine, sizes);
    points.push(...mine.map((cell) => ({
      x: frame.toX(cell.elements), y: frame.toY(cell.q1_ns), series: device, title: cellTitle(cell), facts: cellFacts(cell),
    })));
    const failed = cells.filter((cell) => cell.device === device && !isTimed(cell));
    if (failed.length === 0) continue;
    const places = drawFailures(frame, look, failed, failing.indexOf(device));
    points.push(...failed.map((cell, index) => ({
      ...places[index], series: device, title: cellTitle(cell), facts: failureFacts(cell),
    })));
  }
  explore(frame.svg, points);
  return frame.svg;
}

function statusCounts(cells) {
  const statuses = unique(cells.map((cell) => cell.status));
  return listText(statuses.map((status) => `${countText(cells.filter((cell) => cell.status === status).length)} ${status}`));
}

function curvesSection(study, choice, grid, fixed) {
  const groups = cellGroups(study, choice);
  if (groups.length === 0) return replace(grid, h("p", { class: "nothing" }, "Nothing is chosen that was measured."));
  replace(grid);
  const width = panelWidth(grid, fixed);
  const rows = rowGroups(study, choice);
  appendPanels(study, grid, groups, (group) => {
    const isSame = (other) => isSameKind(other, group);
    const mine = rows.filter((other) => isSame(other) && other.run === group.run).flatMap((other) => other.items);
    const devices = study.choices.device.filter((device) => group.items.some((cell) => cell.device === device));
    return panel(study, group,
      mine.map((row) => h("p", { class: "verdict" }, mine.length > 1 && markerIcon(lookOf(study, row.gpu)), sentence(verdictText(row)))),
      curvesChart(study, group, mine, axesOf(groups.filter(isSame)), width), legend(study, devices));
  });
  return grid;
}
