// Runs side by side: which of them is fastest at each size, where at least two measured it.

// Closer than this nobody is called the winner.
const TIE = 1.05;

// The fastest cell of each run for one operation, mode, dtype, size and shape.
function contests(study, choice) {
  const found = new Map();
  for (const group of cellGroups(study, choice)) {
    for (const cell of group.items.filter(isTimed)) {
      const key = JSON.stringify([cell.operation, cell.mode, cell.dtype, cell.elements, cell.shape]);
      if (!found.has(key)) found.set(key, { cell, best: new Map() });
      const { best } = found.get(key);
      const known = best.get(group.run.id);
      if (!known || cell.q1_ns < known.q1_ns) best.set(group.run.id, cell);
    }
  }
  return [...found.values()].filter(({ best }) => best.size > 1);
}

// The run that wins, and by how much; no run where it is too close to say. Figures that were not measured cannot win.
function winnerOf(study, contest) {
  const measured = study.runs.filter((run) => run.source === "measured" && contest.best.has(run.id));
  const order = measured.map((run) => ({ run, cell: contest.best.get(run.id) })).sort((a, b) => a.cell.q1_ns - b.cell.q1_ns);
  if (order.length < 2) return { text: "not comparable", factor: null };
  const [first, second] = order;
  const factor = second.cell.q1_ns / first.cell.q1_ns;
  const [upper, lower] = [first.cell.interval_ns?.[1], second.cell.interval_ns?.[0]];
  const overlap = isNumber(upper) && isNumber(lower) && upper >= lower;
  return factor < TIE || overlap ? { text: "too close to say", factor } : { text: `${first.cell.device} of ${first.run.id}`, factor };
}

function winnerColumns(study, choice) {
  const runs = study.runs.filter((run) => choice.run.has(run.id));
  const time = ({ best }, run) => best.get(run.id)?.q1_ns ?? null;
  return [
    { name: "Operation", text: ({ cell }) => cell.operation },
    { name: "Mode", short: true, text: ({ cell }) => modeText(cell.mode) },
    { name: "Dtype", text: ({ cell }) => cell.dtype },
    { name: "Elements", number: true, by: ({ cell }) => cell.elements, text: ({ cell }) => countText(cell.elements) },
    ...runs.map((run) => ({
      name: run.source === "measured" ? run.id : `${run.id} (${run.source})`,
      number: true,
      by: (contest) => time(contest, run),
      text: (contest) => timeText(time(contest, run)),
      node: (contest) => (contest.best.has(run.id)
        ? h("span", { class: "device" }, markerIcon(lookOf(study, contest.best.get(run.id).device)), `${timeText(time(contest, run))}, ${contest.best.get(run.id).device}`) : "–"),
    })),
    { name: "Fastest", short: true, text: (contest) => winnerOf(study, contest).text },
    { name: "By", number: true, by: (contest) => winnerOf(study, contest).factor, text: (contest) => timesText(winnerOf(study, contest).factor) },
  ];
}

function winnersSection(study, choice, node) {
  const rows = contests(study, choice);
  if (rows.length === 0) return replace(node, h("p", { class: "nothing" }, "Nothing is chosen that two runs measured."));
  return replace(node, sortableTable(winnerColumns(study, choice), rows,
    "The fastest device of each run, by its marker, at sizes that at least two runs have. A lead below 5% or within the 95% intervals wins nothing, "
    + "nor do figures that were not measured."));
}
