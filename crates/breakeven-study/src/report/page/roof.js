// Rooflines: the rate that each cell reached, against what its device can do at that much work for each byte.

const ROOFS = {
  memory: {
    title: "Roofline",
    caption: "Data already on the device. The slope is its memory, the flat part its arithmetic, both measured in the same run.",
    takes: (study, cell) => (study.cpus.includes(cell.device) && cell.mode !== "copy")
      || cell.mode === "resident" || cell.mode === "kernel" || cell.mode.startsWith("chain"),
    slopes: (ceiling) => [["memory", ceiling.bytes_per_s]],
    bytes: (cell) => cell.bytes,
  },
  transfer: {
    title: "Transfer roofline",
    caption: "Data comes from the host: work for each byte that is copied. The slopes are the way up (solid) and the way back (dashed), measured in the same run.",
    takes: (study, cell) => !study.cpus.includes(cell.device) && ["host", "upload", "first", "cold"].includes(cell.mode),
    slopes: (ceiling) => [["upload", ceiling.upload_bytes_per_s], ["read back", ceiling.read_bytes_per_s]],
    // Runs of older versions do not tell what was copied: there it is what kernels read and write.
    bytes: (cell) => (cell.copied ? cell.copied.upload_bytes + cell.copied.read_bytes : cell.bytes),
  },
};

function roofCells(study, choice, run, roof) {
  // Without a ceiling of its own there is nothing to hold a cell against, as where the engine chose the device.
  const hasRoof = (device) => (run.ceilings || []).some((ceiling) => ceiling.device === device
    && roof.slopes(ceiling).some(([, bandwidth]) => isNumber(bandwidth)));
  return run.cells.filter((cell) => isTimed(cell) && choice.device.has(cell.device) && choice.dtype.has(cell.dtype)
    && choice.operation.has(cell.operation) && hasRoof(cell.device) && roof.takes(study, cell));
}

// Where a cell lies: work for each byte, and work for each second.
function roofPoint(cell, roof) {
  return { cell, x: cell.flops / roof.bytes(cell), y: cell.flops / (cell.q1_ns / 1e9) };
}

function roofFacts(point, ceiling, roof) {
  const { copied } = point.cell;
  const facts = [["mode", modeText(point.cell.mode)], ["reached", rateText(point.y, "FLOP/s")], ["work", `${threeDigits(point.x)} FLOP a byte`]];
  if (copied && roof === ROOFS.transfer) facts.push(["copied", `${bytesText(copied.upload_bytes)} up, ${bytesText(copied.read_bytes)} back`]);
  for (const [name, bandwidth] of ceiling ? roof.slopes(ceiling) : []) {
    if (!isNumber(bandwidth)) continue;
    const limit = Math.min(bandwidth * point.x, isNumber(ceiling.flops) ? ceiling.flops : Infinity);
    facts.push([`of the ceiling (${name})`, percentText(point.y / limit)]);
  }
  return facts;
}

function drawRoof(frame, look, ceiling, roof, [from, to]) {
  roof.slopes(ceiling).forEach(([, bandwidth], index) => {
    const flat = isNumber(ceiling.flops) ? ceiling.flops : Infinity;
    if (!isNumber(bandwidth)) return;
    const knee = Math.min(Math.max(flat / bandwidth, from), to);
    const corners = [from, knee, to].map((x) => [frame.toX(x), frame.toY(Math.min(x * bandwidth, flat))]);
    frame.plot.append(s("path", { class: `roof look-${look}${index ? " second" : ""}`, d: linePath(corners) }));
  });
}

function roofChart(study, points, ceilings, roof, width) {
  const knees = ceilings.flatMap((ceiling) => roof.slopes(ceiling).map(([, bandwidth]) => ceiling.flops / bandwidth));
  const x = intervalOf([...points.map((point) => point.x), ...knees]);
  const roofs = ceilings.flatMap((ceiling) => roof.slopes(ceiling).filter(([, bandwidth]) => isNumber(bandwidth))
    .flatMap(([, bandwidth]) => x.map((work) => Math.min(work * bandwidth, isNumber(ceiling.flops) ? ceiling.flops : Infinity))));
  const frame = makeFrame({
    width,
    height: Math.round(Math.min(380, Math.max(260, width * 0.66))),
    x: { interval: x, text: (value) => threeDigits(value), title: "FLOP a byte" },
    y: { interval: intervalOf([...points.map((point) => point.y), ...roofs]), text: (value) => shortText(value), title: "FLOP/s" },
    label: `${roof.title}: rate against work for each byte. Arrow keys go from point to point.`,
  });
  for (const ceiling of ceilings) drawRoof(frame, lookOf(study, ceiling.device), ceiling, roof, x);
  const shown = points.map((point) => ({
    x: frame.toX(point.x), y: frame.toY(point.y), series: point.cell.device, title: cellTitle(point.cell),
    facts: roofFacts(point, ceilings.find((ceiling) => ceiling.device === point.cell.device), roof),
  }));
  drawMarks(study, frame, shown);
  explore(frame.svg, shown);
  return frame.svg;
}

// Points of a scatter chart, one path for each device.
function drawMarks(study, frame, points) {
  for (const device of unique(points.map((point) => point.series))) {
    const look = lookOf(study, device);
    const mine = points.filter((point) => point.series === device);
    frame.plot.append(s("path", { class: `mark light look-${look}`, d: mine.map(({ x, y }) => markerPath(look, x, y, 3.5)).join("") }));
  }
}

function ceilingList(study, ceilings, roof) {
  const text = (ceiling) => [
    isNumber(ceiling.flops) && rateText(ceiling.flops, "FLOP/s"),
    ...roof.slopes(ceiling).map(([name, bandwidth]) => isNumber(bandwidth) && `${rateText(bandwidth, "B/s")} ${name}`),
  ].filter(Boolean).join(", ");
  return h("ul", { class: "legend" }, ceilings.map((ceiling) =>
    h("li", {}, markerIcon(lookOf(study, ceiling.device)), h("span", {}, `${ceiling.device}: ${text(ceiling) || "no ceiling measured"}`))));
}

function roofPanel(study, choice, run, roof, width) {
  const cells = roofCells(study, choice, run, roof);
  const points = cells.filter((cell) => cell.flops > 0 && roof.bytes(cell) > 0).map((cell) => roofPoint(cell, roof));
  const left = cells.length - points.length;
  const devices = unique(cells.map((cell) => cell.device));
  const ceilings = (run.ceilings || []).filter((ceiling) => devices.includes(ceiling.device));
  return h("article", { class: "panel" },
    h("header", {}, h("h3", {}, roof.title), h("p", { class: "kind" }, study.runs.length > 1 && runName(run))),
    h("p", { class: "caption" }, roof.caption),
    points.length > 0 ? roofChart(study, points, ceilings, roof, width) : h("p", { class: "nothing" }, "No such cells are chosen of a device whose ceilings were measured."),
    points.length > 0 && ceilingList(study, ceilings, roof),
    left > 0 && h("p", { class: "caption" }, `${plural(left, "cell")} without counted work ${left === 1 ? "is" : "are"} not drawn.`));
}

function roofSection(study, choice, grid, fixed) {
  replace(grid);
  const width = panelWidth(grid, fixed);
  for (const run of study.runs.filter((run) => choice.run.has(run.id))) {
    // A panel that says that it is empty helps only where the other one is, too.
    const drawn = Object.values(ROOFS).filter((roof) => roofCells(study, choice, run, roof).length > 0);
    for (const roof of drawn.length > 0 ? drawn : [ROOFS.memory]) grid.append(roofPanel(study, choice, run, roof, width));
  }
  return grid;
}
