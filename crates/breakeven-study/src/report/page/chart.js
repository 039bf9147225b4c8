// The frame that all charts share: axes, grid, markers, legends, panels.

const MARKERS = [
  (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  (x, y, r) => `M${x} ${y - 1.2 * r}L${x + 1.15 * r} ${y + 0.9 * r}H${x - 1.15 * r}z`,
  (x, y, r) => `M${x - 0.9 * r} ${y - 0.9 * r}h${1.8 * r}v${1.8 * r}h${-1.8 * r}z`,
  (x, y, r) => `M${x} ${y - 1.3 * r}L${x + 1.3 * r} ${y}L${x} ${y + 1.3 * r}L${x - 1.3 * r} ${y}z`,
  (x, y, r) => `M${x} ${y + 1.2 * r}L${x + 1.15 * r} ${y - 0.9 * r}H${x - 1.15 * r}z`,
  (x, y, r) => `M${x - r} ${y - 0.45 * r}h${2 * r}v${0.9 * r}h${-2 * r}z`,
];

// The outline of a device's marker; CPUs are circles.
function markerPath(look, x, y, r) {
  return MARKERS[look](round(x), round(y), r);
}

function round(pixels) {
  return Math.round(pixels * 10) / 10;
}

// A device's marker as it stands in text.
function markerIcon(look) {
  return s("svg", { class: `icon look-${look}`, viewBox: "0 0 12 12", width: 12, height: 12, "aria-hidden": "true" },
    s("path", { class: "mark", d: markerPath(look, 6, 6, 4) }));
}

function legend(study, devices) {
  return h("ul", { class: "legend" },
    devices.map((device) => h("li", {}, markerIcon(lookOf(study, device)), h("span", {}, deviceText(device)))));
}

// Axes and grid; `x` and `y` have `interval`, `text`, `title`. The chart is drawn into `plot`.
function makeFrame({ width, height, x, y, label }) {
  const [left, right, top, bottom] = [58, width - 14, 26, height - 38];
  const toX = logScale(x.interval, left, right);
  const toY = logScale(y.interval, bottom, top);
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "group", "aria-label": label });
  const axes = s("g", { class: "axes", "aria-hidden": "true" });
  for (const tick of ticksOf(y.interval, height / 34)) {
    const at = round(toY(tick));
    axes.append(s("line", { x1: left, x2: right, y1: at, y2: at }),
      s("text", { x: left - 8, y: at + 4, "text-anchor": "end" }, y.text(tick)));
  }
  for (const tick of ticksOf(x.interval, width / 64)) {
    const at = round(toX(tick));
    axes.append(s("line", { x1: at, x2: at, y1: top, y2: bottom }),
      s("text", { x: at, y: bottom + 17, "text-anchor": "middle" }, x.text(tick)));
  }
  axes.append(s("line", { class: "base", x1: left, x2: right, y1: bottom, y2: bottom }),
    s("text", { class: "title", x: left - 8, y: 13, "text-anchor": "end" }, y.title),
    s("text", { class: "title", x: right, y: height - 4, "text-anchor": "end" }, x.title));
  const plot = s("g", {});
  svg.append(axes, plot);
  return { svg, plot, toX, toY, left, right, top, bottom, width, height };
}

// The name of a run, and a word where its numbers are not measured ones.
function runName(run) {
  return [h("span", { class: "run" }, run.id), run.source !== "measured" && h("span", { class: "badge" }, run.source)];
}

function isSameKind(group, other) {
  return ["operation", "mode", "dtype"].every((name) => group[name] === other[name]);
}

function kindTitle(group) {
  return [h("h3", {}, group.operation), h("p", { class: "kind" }, `${modeText(group.mode)}, ${group.dtype}`)];
}

// Runs stand beside each other below what they have in common; one run has it in each panel.
function panelTitle(study, group) {
  return h("header", {}, study.runs.length > 1 ? h("p", { class: "kind" }, runName(group.run)) : kindTitle(group));
}

function appendPanels(study, grid, groups, makePanel) {
  groups.forEach((group, index) => {
    const isFirst = index === 0 || !isSameKind(groups[index - 1], group);
    if (isFirst && study.runs.length > 1) grid.append(h("header", { class: "across" }, kindTitle(group)));
    grid.append(makePanel(group));
  });
}

function panel(study, group, ...content) {
  return h("article", { class: "panel" }, panelTitle(study, group), ...content);
}

// How wide a panel is that stands in `grid`.
function panelWidth(grid, fixed) {
  if (fixed) return fixed;
  const probe = h("article", { class: "panel" });
  grid.append(probe);
  const style = getComputedStyle(probe);
  const width = probe.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  probe.remove();
  return Math.max(Math.floor(width), 240);
}
