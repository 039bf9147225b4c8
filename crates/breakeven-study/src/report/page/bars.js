// Where the time goes: the parts of each time as a stacked bar.

const PART_NAMES = { allocate: "allocate", upload: "upload", dispatch: "dispatch", kernel: "kernel", read: "read back", wait: "wait" };

// The parts of a cell in order, and what of its time they leave unexplained.
function partsOf(cell) {
  const parts = { ...(cell.parts || {}) };
  // Whoever waits for a device waits for its kernels and its copies too: what is left of waiting is what nothing else explains.
  if (isNumber(parts.wait_ns)) parts.wait_ns = Math.max(parts.wait_ns - (parts.kernel_ns || 0) - (parts.read_ns || 0), 0);
  const measured = PARTS.filter((name) => isNumber(parts[`${name}_ns`])).map((name) => ({ name, ns: parts[`${name}_ns`] }));
  const sum = measured.reduce((total, part) => total + part.ns, 0);
  const rest = Math.max(cell.q1_ns - sum, 0);
  return {
    measured,
    missing: PARTS.filter((name) => !isNumber(parts[`${name}_ns`])),
    rest,
    whole: sum + rest,
  };
}

function partFacts(cell, parts) {
  const share = (ns) => `${timeText(ns)}, ${percentText(ns / parts.whole)}`;
  return [
    ["lower quartile", timeText(cell.q1_ns)],
    ...parts.measured.map((part) => [PART_NAMES[part.name], share(part.ns)]),
    parts.rest > 0 && ["in no part", share(parts.rest)],
    parts.missing.length > 0 && ["not measured", listText(parts.missing.map((name) => PART_NAMES[name]))],
  ].filter(Boolean);
}

function drawBar(svg, cell, { y, left, right }) {
  const parts = partsOf(cell);
  svg.append(s("text", { x: left - 8, y: y + 12, "text-anchor": "end" }, shortText(cell.elements)),
    s("text", { class: "total", x: right + 8, y: y + 12 }, timeText(cell.q1_ns)));
  if (parts.measured.length === 0) {
    svg.append(s("rect", { class: "part rest", x: left, y, width: right - left, height: 16 }),
      s("text", { class: "inside rest", x: left + 6, y: y + 12 }, "not measured"));
  }
  let x = left;
  const pieces = parts.measured.length === 0 ? [] : [...parts.measured, { name: "rest", ns: parts.rest }];
  for (const { name, ns } of pieces) {
    const width = ((right - left) * ns) / parts.whole;
    if (width >= 0.5) svg.append(s("rect", { class: `part ${name}`, x: round(x), y, width: round(Math.max(width - 1, 0.5)), height: 16 }));
    const text = `${PART_NAMES[name] || "in no part"} ${percentText(ns / parts.whole)}`;
    if (width > text.length * 6.4 + 8) svg.append(s("text", { class: `inside ${name}`, x: round(x + 5), y: y + 12 }, text));
    x += width;
  }
  return { x: left, y: y + 8, series: `${cell.device} ${cell.shape} ${cell.elements}`, title: cellTitle(cell), facts: partFacts(cell, parts) };
}

// What was measured for no cell of a device; what is missing for some of them is said where they are looked at.
function missingText(cells, device) {
  const lists = cells.filter((cell) => cell.device === device).map((cell) => partsOf(cell).missing);
  const missing = PARTS.filter((name) => lists.every((list) => list.includes(name)));
  if (missing.length === 0) return "";
  const names = missing.length > PARTS.length - 2 ? `only ${listText(PARTS.filter((name) => !missing.includes(name))) || "the whole"} was measured`
    : `not measured: ${missing.map((name) => PART_NAMES[name]).join(", ")}`;
  return names;
}

function barsChart(study, group, width) {
  const timed = group.items.filter(isTimed);
  const devices = study.choices.device.filter((device) => timed.some((cell) => cell.device === device));
  const height = devices.length * 26 + timed.length * 20 + 4;
  const svg = s("svg", {
    class: "chart bars", viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "group",
    "aria-label": `${group.operation}, ${modeText(group.mode)}, ${group.dtype}: parts of each time. Arrow keys go from bar to bar.`,
  });
  const points = [];
  let y = 4;
  for (const device of devices) {
    const look = lookOf(study, device);
    svg.append(s("path", { class: `mark look-${look}`, d: markerPath(look, 6, y + 9, 4) }),
      s("text", { class: "device", x: 16, y: y + 13 }, device, s("tspan", { class: "missing", dx: 12 }, missingText(timed, device))));
    y += 22;
    for (const cell of timed.filter((cell) => cell.device === device).sort((a, b) => a.elements - b.elements)) {
      points.push(drawBar(svg, cell, { y, left: 52, right: width - 66 }));
      y += 20;
    }
    y += 4;
  }
  explore(svg, points, width);
  return svg;
}

function barsLegend() {
  return h("ul", { class: "legend parts" }, [...PARTS, "rest"].map((name) =>
    h("li", {}, s("svg", { class: "icon", viewBox: "0 0 12 12", width: 12, height: 12, "aria-hidden": "true" },
      s("rect", { class: `part ${name}`, x: 1, y: 1, width: 10, height: 10 })), h("span", {}, PART_NAMES[name] || "in no part, or not measured"))));
}

function barsSection(study, choice, grid, fixed) {
  const groups = cellGroups(study, choice).filter((group) => group.items.some(isTimed));
  if (groups.length === 0) return replace(grid, h("p", { class: "nothing" }, "Nothing is chosen that was measured."));
  replace(grid);
  const width = panelWidth(grid, fixed);
  grid.before(...grid.parentElement.querySelectorAll(".legend.parts").length > 0 ? [] : [barsLegend()]);
  appendPanels(study, grid, groups, (group) => panel(study, group, barsChart(study, group, width)));
  return grid;
}
