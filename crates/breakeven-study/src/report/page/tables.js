// Tables that sort by any column, and turn into cards where the page is narrow.

// A column has `name`, `text(row)` (or `node(row)`), and `by(row)` where it sorts otherwise than by text; `number` aligns right.
function sortKey(column, row) {
  const key = column.by ? column.by(row) : column.text(row);
  return key === undefined || (typeof key === "number" && Number.isNaN(key)) ? null : key;
}

// The order of two keys; what is not known comes last either way.
function compareKeys(a, b, direction) {
  if (a === null || b === null) return (a === null) - (b === null);
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return direction * order;
}

function columnClass(column) {
  return column.number ? "number" : column.short ? "short" : null;
}

function tableRow(columns, row) {
  return h("tr", {}, columns.map((column, index) =>
    h(index === 0 ? "th" : "td", { scope: index === 0 ? "row" : null, class: columnClass(column), "data-label": column.name },
      column.node ? column.node(row) : column.text(row))));
}

function sortableTable(columns, rows, caption) {
  const body = h("tbody", {}, rows.map((row) => tableRow(columns, row)));
  const heads = columns.map((column) => h("th", { scope: "col", class: columnClass(column) },
    h("button", { type: "button", click: () => sortBy(column) }, column.name, h("span", { class: "arrow", "aria-hidden": "true" }))));
  let current = null;
  const sortBy = (column) => {
    const direction = current && current.column === column ? -current.direction : 1;
    current = { column, direction };
    const sorted = [...rows].sort((a, b) => compareKeys(sortKey(column, a), sortKey(column, b), direction));
    replace(body, sorted.map((row) => tableRow(columns, row)));
    heads.forEach((head, index) => {
      if (columns[index] !== column) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    });
  };
  return h("div", { class: "scroll" }, h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, heads)), body));
}

function runColumn(study) {
  return study.runs.length > 1 ? [{ name: "Run", text: (row) => row.run.id }] : [];
}

function deviceNode(study, device) {
  return h("span", { class: "device" }, markerIcon(lookOf(study, device)), device);
}

function crossingText(crossing) {
  const winner = crossing.to === "gpu" ? "GPU" : "CPU";
  return `${winner} from ${aboutText(crossing.elements)} (${aboutText(crossing.low)} to ${aboutText(crossing.high)})`;
}

function breakEvenColumns(study) {
  const first = (row) => (row.crossings.length > 0 ? row.crossings[0].elements : null);
  return [
    { name: "Operation", text: (row) => row.operation },
    ...runColumn(study),
    { name: "Mode", short: true, text: (row) => modeText(row.mode) },
    { name: "Dtype", text: (row) => row.dtype },
    { name: "GPU", node: (row) => deviceNode(study, row.gpu), text: (row) => row.gpu },
    {
      name: "Crossings (95%)",
      by: first,
      text: (row) => row.crossings.map(crossingText).join("; ") || "none",
      node: (row) => (row.crossings.length > 0
        ? h("span", {}, row.crossings.map((crossing) => h("span", { class: "crossing-text" }, crossingText(crossing))))
        : "none"),
    },
    { name: "GPU wins from", number: true, by: (row) => row.wins_from, text: (row) => (isNumber(row.wins_from) ? countText(row.wins_from) : "never") },
    { name: "Within 5%", number: true, by: (row) => (row.band ? row.band[0] : null), text: (row) => (row.band ? row.band.map(aboutText).join(" to ") : "–") },
    { name: "GPU-BLOB threshold", number: true, by: (row) => row.gpu_blob, text: (row) => (isNumber(row.gpu_blob) ? countText(row.gpu_blob) : "none") },
    { name: "Measured", by: (row) => row.range[0], text: (row) => (row.range[1] > 0 ? unique(row.range.map(countText)).join(" to ") : "none on both") },
  ];
}

function breakEvenSection(study, choice, node) {
  const rows = rowGroups(study, choice).flatMap((group) => group.items.map((row) => ({ ...row, run: group.run })));
  if (rows.length === 0) return replace(node, h("p", { class: "nothing" }, "Nothing is chosen of which a CPU and a GPU were both measured."));
  return replace(node, sortableTable(breakEvenColumns(study), rows,
    "Where the faster device changes. “GPU wins from” is the smallest measured size from which the GPU wins at all larger ones; "
    + "GPU-BLOB’s threshold passes over one size that is slower if a neighbour is not."));
}

// Each part that was measured, as it was: bars draw the same.
function partsText(cell) {
  const known = PARTS.filter((name) => isNumber((cell.parts || {})[`${name}_ns`]));
  return known.map((name) => `${PART_NAMES[name]} ${timeText(cell.parts[`${name}_ns`])}`).join(", ") || "–";
}

// Plans and pipelines that calls had to make: warm calls make none.
function madeText(cell) {
  if (!cell.made) return "–";
  const pipelines = isNumber(cell.made.pipelines) ? `, ${plural(cell.made.pipelines, "pipeline")}` : "";
  return `${plural(cell.made.plans, "plan")}${pipelines} in ${plural(cell.made.calls, "call")}`;
}

function cellColumns(study) {
  const time = (name, key) => ({ name, number: true, by: (cell) => cell[key] ?? null, text: (cell) => timeText(cell[key]) });
  const perSecond = (cell, work) => (isTimed(cell) && workOf(cell, work) > 0 ? workOf(cell, work) / (cell.q1_ns / 1e9) : null);
  return [
    { name: "Operation", text: (cell) => cell.operation },
    ...runColumn(study),
    { name: "Elements", number: true, by: (cell) => cell.elements, text: (cell) => countText(cell.elements) },
    { name: "Shape", text: (cell) => cell.shape || "" },
    { name: "Dtype", text: (cell) => cell.dtype },
    { name: "Device", text: (cell) => cell.device },
    { name: "Mode", text: (cell) => modeText(cell.mode) },
    { name: "Status", text: (cell) => cell.status },
    time("Fastest", "min_ns"), time("Lower quartile", "q1_ns"), time("Median", "median_ns"), time("P90", "p90_ns"), time("P99", "p99_ns"),
    { name: "FLOP/s", number: true, by: (cell) => perSecond(cell, "flops"), text: (cell) => rateText(perSecond(cell, "flops"), "") },
    { name: "B/s", number: true, by: (cell) => perSecond(cell, "bytes"), text: (cell) => rateText(perSecond(cell, "bytes"), "") },
    { name: "Parts", text: partsText },
    { name: "Samples", number: true, by: (cell) => cell.samples, text: (cell) => countText(cell.samples) },
    { name: "Dropped", number: true, by: (cell) => cell.dropped, text: (cell) => countText(cell.dropped) },
    { name: "Warm-up", text: (cell) => cell.warm_up || "–" },
    { name: "Stopped by", text: (cell) => cell.stop || "–" },
    { name: "Pool", text: (cell) => (cell.pool ? `${countText(cell.pool.hits)} hits, ${countText(cell.pool.misses)} misses, ${bytesText(cell.pool.bytes)}` : "–") },
    { name: "Copied", text: (cell) => (cell.copied ? `${bytesText(cell.copied.upload_bytes)} up, ${bytesText(cell.copied.read_bytes)} back` : "–") },
    { name: "Made", text: madeText },
    { name: "Ran", text: (cell) => cell.ran || "–" },
    { name: "Checksum", text: (cell) => cell.checksum || "–" },
    { name: "Remarks", text: (cell) => [...(cell.flags || []), cell.why].filter(Boolean).join("; ") || "–" },
  ];
}

// Columns that differ between rows, and in words those that do not.
function splitColumns(columns, rows) {
  const isSame = (column) => rows.length > 1 && rows.every((row) => column.text(row) === column.text(rows[0]));
  const words = (column) => `${column.name.toLowerCase()} ${column.text(rows[0])}`;
  return {
    varying: columns.filter((column, index) => index === 0 || !isSame(column)),
    same: columns.filter((column, index) => index > 0 && isSame(column) && column.text(rows[0]) !== "–").map(words),
  };
}

// What a table leaves out of a large study, and where that is.
function leftOutText(all, told) {
  const count = all.length - told.length;
  return count > 0 && ` ${plural(count, "more cell")} of what is chosen: a page this large tells in full of those that failed and of the slowest beside the fastest device; summary.csv has all.`;
}

function cellsSection(study, choice, node) {
  const chosen = cellGroups(study, choice).flatMap((group) => group.items.map((cell) => ({ ...cell, run: group.run })));
  const cells = chosen.filter((cell) => !cell.brief);
  if (chosen.length > 0 && cells.length === 0) return replace(node, h("p", { class: "nothing" }, leftOutText(chosen, cells)));
  if (cells.length === 0) return replace(node, h("p", { class: "nothing" }, "Nothing is chosen that was measured."));
  const { varying, same } = splitColumns(cellColumns(study), cells);
  const table = sortableTable(varying, cells, [`${plural(cells.length, "cell")} of what is chosen.`, same.length > 0 && ` The same in all of them: ${same.join("; ")}.`, leftOutText(chosen, cells)]);
  table.classList.add("wide");
  table.tabIndex = 0;
  table.setAttribute("role", "region");
  table.setAttribute("aria-label", "All cells");
  return replace(node, table);
}
