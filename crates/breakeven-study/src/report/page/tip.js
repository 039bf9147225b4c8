// What a point says, when the pointer is near it or the keyboard is on it.

const REACH_PIXELS = 32;

function showTip(anchor, point) {
  const tip = byId("tip");
  replace(tip, h("strong", {}, point.title), h("dl", {}, point.facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
  tip.hidden = false;
  const box = anchor.getBoundingClientRect();
  const scale = box.width / anchor.viewBox.baseVal.width;
  const [x, y] = [box.left + point.x * scale, box.top + point.y * scale];
  const { offsetWidth: width, offsetHeight: height } = tip;
  const left = x + 16 + width > innerWidth ? x - 16 - width : x + 16;
  const top = y + 16 + height > innerHeight ? y - 16 - height : y + 16;
  tip.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
  tip.style.top = `${Math.max(8, top)}px`;
}

function hideTip() {
  byId("tip").hidden = true;
}

function sayPoint(point) {
  byId("say").textContent = [point.title, ...point.facts.map(([name, value]) => `${name} ${value}`)].join("; ");
}

function nearest(points, x, y, reach) {
  let best = null;
  let least = reach * reach;
  for (const point of points) {
    const distance = (point.x - x) ** 2 + (point.y - y) ** 2;
    if (distance <= least) [best, least] = [point, distance];
  }
  return best;
}

// The point that an arrow key leads to: along a series, or to the next series above or below.
function neighbour(points, from, key) {
  const along = points.filter((point) => point.series === from.series).sort((a, b) => a.x - b.x);
  const at = along.indexOf(from);
  // Points straight above or below count as nearer than others.
  const beside = (isBeside) => nearest(
    points.filter(isBeside).map((point) => ({ point, x: point.x * 4, y: point.y })), from.x * 4, from.y, Infinity)?.point;
  const moves = {
    ArrowRight: () => along[Math.min(at + 1, along.length - 1)],
    ArrowLeft: () => along[Math.max(at - 1, 0)],
    Home: () => along[0],
    End: () => along[along.length - 1],
    ArrowUp: () => beside((point) => point.y < from.y && point.series !== from.series) || from,
    ArrowDown: () => beside((point) => point.y > from.y && point.series !== from.series) || from,
  };
  return moves[key] && moves[key]();
}

// The mark around the point that is looked at: a ring, or a frame around its row.
function makeRing(rowWidth) {
  return rowWidth ? s("rect", { class: "ring", x: 1, width: rowWidth - 2, height: 20, rx: 3, visibility: "hidden" })
    : s("circle", { class: "ring", r: 8, visibility: "hidden" });
}

// Lets pointer and keyboard explore `points`: `{x, y, series, title, facts}` in the chart's own coordinates.
// With `rowWidth` a point is met anywhere in its row.
function explore(svg, points, rowWidth) {
  if (points.length === 0) return;
  const ring = makeRing(rowWidth);
  svg.append(ring);
  let current = null;
  const leave = () => {
    ring.setAttribute("visibility", "hidden");
    hideTip();
  };
  const visit = (point) => {
    current = point;
    furnish(ring, rowWidth ? { y: point.y - 10 } : { cx: round(point.x), cy: round(point.y) }, []);
    ring.setAttribute("visibility", "visible");
    showTip(svg, point);
  };
  const follow = (event) => {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    const point = rowWidth ? points.find((point) => Math.abs(point.y - y) <= 10) : nearest(points, x, y, REACH_PIXELS);
    if (point) visit(point);
    else leave();
  };
  svg.addEventListener("pointermove", follow);
  svg.addEventListener("pointerdown", follow);
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("focus", () => {
    if (!svg.matches(":focus-visible")) return;
    visit(current || points[0]);
    sayPoint(current);
  });
  svg.addEventListener("keydown", (event) => {
    if (event.key === "Escape") leave();
    const next = neighbour(points, current || points[0], event.key);
    if (!next) return;
    event.preventDefault();
    visit(next);
    sayPoint(next);
  });
}
