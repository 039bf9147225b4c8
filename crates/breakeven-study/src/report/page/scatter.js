// Predicted against measured: how far the placement's prices are from the clock.

const WORST_SHOWN = 8;

// How far apart, as a factor of at least 1.
function errorOf(cell) {
  return Math.max(cell.predicted_ns / cell.q1_ns, cell.q1_ns / cell.predicted_ns);
}

function errorText(device, cells) {
  const errors = cells.map(errorOf).sort((a, b) => a - b);
  const at = (share) => timesText(errors[Math.min(Math.floor(errors.length * share), errors.length - 1)]);
  return `${device}: half within ${at(0.5)}, nine of ten within ${at(0.9)}, worst ${at(1)} of ${countText(errors.length)}`;
}

function scatterChart(study, cells, width) {
  const interval = intervalOf(cells.flatMap((cell) => [cell.q1_ns, cell.predicted_ns]));
  const axis = (title) => ({ interval, text: timeText, title });
  const frame = makeFrame({
    width,
    height: Math.round(Math.min(460, Math.max(260, width * 0.8))),
    x: axis("measured"),
    y: axis("predicted"),
    label: "Predicted against measured time. Arrow keys go from point to point.",
  });
  const [low, high] = interval;
  const along = (factor) => {
    const ends = factor > 1 ? [[low, low * factor], [high / factor, high]] : [[low / factor, low], [high, high * factor]];
    return ends.map(([x, y]) => [frame.toX(x), frame.toY(y)]);
  };
  frame.plot.append(
    s("path", { class: "within", d: `${linePath([...along(1.25), ...along(0.8).reverse()])}z` }),
    s("path", { class: "equal", d: linePath(along(1)) }));
  const points = cells.map((cell) => ({
    x: frame.toX(cell.q1_ns), y: frame.toY(cell.predicted_ns), series: cell.device, title: cellTitle(cell),
    facts: [["mode", modeText(cell.mode)], ["measured", timeText(cell.q1_ns)], ["predicted", timeText(cell.predicted_ns)],
      ["apart", timesText(errorOf(cell))]],
  }));
  drawMarks(study, frame, points);
  explore(frame.svg, points);
  return frame.svg;
}

function predictedCells(study, choice, run) {
  return cellGroups({ ...study, runs: [run] }, choice).flatMap((group) => group.items)
    .filter((cell) => isTimed(cell) && isNumber(cell.predicted_ns) && cell.predicted_ns > 0);
}

function scatterPanel(study, cells, run, width) {
  const devices = study.choices.device.filter((device) => cells.some((cell) => cell.device === device));
  return h("article", { class: "panel" },
    h("header", {}, h("h3", {}, "All predictions"), study.runs.length > 1 && h("p", { class: "kind" }, runName(run))),
    cells.length > 0 ? scatterChart(study, cells, width) : h("p", { class: "nothing" }, "Nothing that is chosen was predicted in this run."),
    h("ul", { class: "legend" }, devices.map((device) =>
      h("li", {}, markerIcon(lookOf(study, device)), h("span", {}, errorText(device, cells.filter((cell) => cell.device === device)))))));
}

function worstColumns(study) {
  return [
    { name: "Operation", text: (cell) => cell.operation },
    { name: "Elements", number: true, by: (cell) => cell.elements, text: (cell) => countText(cell.elements) },
    { name: "Device", node: (cell) => deviceNode(study, cell.device), text: (cell) => cell.device },
    { name: "Predicted", number: true, by: (cell) => cell.predicted_ns, text: (cell) => timeText(cell.predicted_ns) },
    { name: "Measured", number: true, by: (cell) => cell.q1_ns, text: (cell) => timeText(cell.q1_ns) },
    { name: "Apart", number: true, by: errorOf, text: (cell) => timesText(errorOf(cell)) },
  ];
}

function worstPanel(study, cells) {
  const worst = [...cells].sort((a, b) => errorOf(b) - errorOf(a)).slice(0, WORST_SHOWN);
  return h("article", { class: "panel" }, h("header", {}, h("h3", {}, "Furthest apart")), sortableTable(worstColumns(study), worst, ""));
}

function scatterSection(study, choice, grid, fixed) {
  replace(grid);
  const width = panelWidth(grid, fixed);
  for (const run of study.runs.filter((run) => choice.run.has(run.id))) {
    const cells = predictedCells(study, choice, run);
    grid.append(scatterPanel(study, cells, run, width));
    if (cells.length > 0) grid.append(worstPanel(study, cells));
  }
  return grid;
}
