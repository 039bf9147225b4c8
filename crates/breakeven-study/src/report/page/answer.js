// The answer first: a sentence, and for each operation who wins at which size.

const SOURCE_BANNERS = {
  published: ["Published figures.", "They were taken from somebody’s report and not measured here:"],
  simulated: ["Simulated data.", "A simulated device’s clock made these numbers; no machine was measured:"],
};

function banners(study) {
  return Object.entries(SOURCE_BANNERS).map(([source, [title, text]]) => {
    const names = study.runs.filter((run) => run.source === source).map((run) => run.id);
    return names.length > 0 && h("p", { class: "banner", role: "note" }, h("strong", {}, title), ` ${text} ${listText(names)}.`);
  });
}

// A software device takes the part of a GPU in tests, and says nothing about one.
function softwareBanner(study) {
  const names = unique(study.runs.flatMap((run) => run.break_even.map((row) => row.gpu).filter((device) => isSoftware(run, device))));
  return names.length > 0 && h("p", { class: "banner soft", role: "note" },
    h("strong", {}, `${listText(names)} ${names.length === 1 ? "is a software device" : "are software devices"}.`),
    " Such a device runs on the CPU: nothing that is said of it holds for a GPU.");
}

function noiseBanner(study) {
  const loud = study.runs.filter((run) => run.noise.verdict !== "quiet");
  return loud.map((run) => h("p", { class: "banner soft", role: "note" },
    h("strong", {}, run.noise.verdict === "unusable" ? "Too noisy to conclude anything." : "A noisy machine."),
    isNumber(run.noise.floor) ? ` Two measurements of the same code differed by ${percentText(run.noise.floor)}` : " How much the same code differs from itself is not known",
    `${study.runs.length > 1 ? ` in ${run.id}` : ""}.`));
}

function oneSentence(operation, where, rows, isWon, noun) {
  if (rows.length === 1) return `${operation}, ${where}: ${verdictText(rows[0])}.`;
  return isWon ? `The ${noun} wins ${operation} once it is large enough, ${where}.` : `No ${noun} wins ${operation} for good, ${where}.`;
}

// How many of the operations a GPU wins from some size on, in a mode of a run.
function countSentence(mode, groups) {
  const operations = unique(groups.map((group) => group.operation));
  const won = operations.filter((operation) =>
    groups.some((group) => group.operation === operation && group.items.some((row) => isNumber(row.wins_from))));
  const where = modeText(mode);
  const isOnlySoftware = groups.every((group) => group.items.every((row) => isSoftware(group.run, row.gpu)));
  const noun = isOnlySoftware ? "software device" : "GPU";
  if (operations.length === 1) return oneSentence(operations[0], where, groups.flatMap((group) => group.items), won.length > 0, noun);
  if (won.length === 0) return `No ${noun} wins any of ${operations.length} operations for good, ${where}.`;
  if (won.length === operations.length) return `The ${noun} wins all ${operations.length} operations once they are large enough, ${where}.`;
  return `The ${noun} wins ${won.length} of ${operations.length} operations once they are large enough, ${where}.`;
}

function headline(study, groups) {
  const lines = [];
  for (const run of study.runs) {
    for (const mode of study.choices.mode) {
      const mine = groups.filter((group) => group.run === run && group.mode === mode);
      if (mine.length === 0) continue;
      lines.push(h("p", {}, study.runs.length > 1 && h("span", { class: "run" }, run.id), countSentence(mode, mine)));
    }
  }
  if (lines.length > 0) return h("div", { class: lines.length > 1 ? "lead several" : "lead" }, lines);
  return h("p", { class: "lead" }, noAnswer(study));
}

function noAnswer(study) {
  if (study.runs.length === 0) return "This report holds no run.";
  if (study.runs.every((run) => run.cells.length === 0)) return "Nothing was measured.";
  if (study.runs.every((run) => run.break_even.length === 0)) return "There is nothing to compare: no operation was measured on a CPU and on a GPU.";
  return "Nothing is chosen of which a CPU and a GPU were both measured.";
}

// Whether no size was measured at which the two differ.
function isTie(row, cells) {
  const mine = cells.filter((cell) => isTimed(cell) && isSameKind(cell, row));
  const time = (device, elements) => mine.find((cell) => cell.device === device && cell.elements === elements)?.q1_ns;
  const sizes = unique(mine.map((cell) => cell.elements)).filter((size) => isNumber(time(row.cpu, size)) && isNumber(time(row.gpu, size)));
  return sizes.length > 0 && sizes.every((size) => time(row.cpu, size) === time(row.gpu, size));
}

// Stretches of the measured range with the device that wins there.
function winnersOf(row, cells) {
  const [from, to] = row.range;
  // No size was measured on both.
  if (to === 0) return [];
  const crossings = [...row.crossings].sort((a, b) => a.elements - b.elements);
  const opposite = { cpu: "gpu", gpu: "cpu" };
  let side = crossings.length > 0 ? opposite[crossings[0].to] : isNumber(row.wins_from) ? "gpu" : isTie(row, cells) ? "tie" : "cpu";
  let start = from;
  const stretches = [];
  for (const crossing of crossings) {
    stretches.push({ side, from: start, to: crossing.elements });
    [side, start] = [crossing.to, crossing.elements];
  }
  return [...stretches, { side, from: start, to }];
}

function stripChart(study, group, row, interval) {
  const width = stripWidth();
  const toX = logScale(interval, 0, width);
  const clamp = (value) => Math.min(Math.max(value, interval[0]), interval[1]);
  const rect = (name, from, to) => s("rect", {
    class: name, x: round(toX(clamp(from))), width: round(Math.max(toX(clamp(to)) - toX(clamp(from)), 1)), y: 3, height: 12,
  });
  const look = { cpu: lookOf(study, row.cpu), gpu: lookOf(study, row.gpu) };
  return s("svg", { class: "strip", viewBox: `0 0 ${width} 18`, role: "img", "aria-label": row.verdict, preserveAspectRatio: "none" },
    winnersOf(row, group.run.cells).map((stretch) => rect(`win look-${look[stretch.side] ?? "none"}`, stretch.from, stretch.to)),
    row.crossings.map((crossing) => [rect("unsure", crossing.low, crossing.high),
      s("line", { class: "cut", x1: round(toX(crossing.elements)), x2: round(toX(crossing.elements)), y1: 0, y2: 18 })]));
}

// Close to what the layout gives it, so that text on its axis has its own size.
function stripWidth() {
  if (innerWidth <= 720) return Math.max(innerWidth - 32, 240);
  return Math.round(((Math.min(innerWidth, 1240) - 88) * 2.2) / 5.8);
}

function stripAxis(interval, width) {
  const toX = logScale(interval, 0, width);
  return s("svg", { class: "strip axis", viewBox: `0 0 ${width} 18`, "aria-hidden": "true" },
    ticksOf(interval, width / 70).map((tick) => {
      const x = toX(tick);
      const anchor = x < 14 ? "start" : x > width - 14 ? "end" : "middle";
      return s("text", { x: round(x), y: 13, "text-anchor": anchor }, shortText(tick));
    }));
}

// A row of the list; `again` if the one above is of the same operation.
function verdictRow(study, choice, { group, row, again }, interval) {
  const many = (name) => choice[name].size > 1;
  const kind = [many("mode") && modeText(row.mode), many("dtype") && row.dtype].filter(Boolean).join(", ");
  return h("li", { class: again ? "again" : null },
    h("div", { class: "who" }, h("div", { class: again ? "unseen" : null }, h("strong", {}, row.operation), kind && h("span", { class: "kind" }, ` ${kind}`)),
      h("div", { class: "gpu" }, markerIcon(lookOf(study, row.gpu)), row.gpu, study.runs.length > 1 && h("div", {}, runName(group.run)))),
    stripChart(study, group, row, interval),
    h("p", { class: "verdict" }, sentence(verdictText(row))));
}

// The devices, and what they are where all runs agree.
function hardwareLegend(study, devices) {
  // Merged runs call devices by their hardware.
  const names = (device) => unique(study.runs.map((run) => hardwareOf(run, device)).filter((name) => name && !device.includes(name)));
  return h("ul", { class: "legend" }, devices.map((device) =>
    h("li", {}, markerIcon(lookOf(study, device)), h("span", {}, device, names(device).length === 1 && `, ${names(device)[0]}`))));
}

function answerSection(study, choice, node) {
  const groups = rowGroups(study, choice);
  replace(node, headline(study, groups), choiceLines(study));
  if (groups.length === 0) return node;
  const entries = groups.flatMap((group, at) => group.items.map((row, index) =>
    ({ group, row, again: index > 0 || (at > 0 && isSameKind(groups[at - 1], group)) })));
  const rows = entries.map((entry) => entry.row);
  // No size was measured on both: such a row has no range.
  const ends = rows.flatMap((row) => (row.range[1] > 0 ? row.range : []));
  if (ends.length === 0) ends.push(1, 10);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const interval = high > low ? [Math.max(low, 1), high] : [Math.max(low, 1) / 2, high * 2];
  const devices = study.choices.device.filter((device) => rows.some((row) => row.cpu === device || row.gpu === device));
  return furnish(node, {}, [
    h("div", { class: "strip-legend" }, h("span", {}, "Fastest at each size:"), hardwareLegend(study, devices),
      h("span", { class: "note" }, "the pale part may go either way (95% interval)")),
    h("ul", { class: "strips" },
      entries.map((entry) => verdictRow(study, choice, entry, interval)),
      h("li", { class: "axis", "aria-hidden": "true" }, h("div", { class: "who" }, "elements"), stripAxis(interval, stripWidth()), h("p", {}))),
  ]);
}
