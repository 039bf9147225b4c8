// Whether breakeven chose well: its own choice of a device against the best device by hand.

// The finding of a run in a sentence; what is missing, where nothing was found. Figures of others hold no choice.
function choiceText(run) {
  if (run.regret) return `${sentence(run.regret.verdict)}.`;
  if (run.source === "published" || run.break_even.length === 0) return "";
  return "Whether breakeven’s own choice is right was not measured: a scan without --device does.";
}

// Beside the answer, for whoever reads nothing else.
function choiceLines(study) {
  return study.runs.map((run) => [run, choiceText(run)]).filter(([, text]) => text).map(([run, text]) =>
    h("p", { class: "choice" }, study.runs.length > 1 && h("span", { class: "run" }, run.id), h("strong", {}, "Its own choice: "), text));
}

function choiceColumns(study) {
  const time = (name, key) => ({ name, number: true, by: (row) => row[key] ?? null, text: (row) => timeText(row[key]) });
  const chosen = (row) => row.chose || "not told";
  return [
    { name: "Operation", text: (row) => row.operation },
    ...runColumn(study),
    { name: "Mode", short: true, text: (row) => modeText(row.mode) },
    { name: "Dtype", text: (row) => row.dtype },
    { name: "Elements", number: true, by: (row) => row.elements, text: (row) => countText(row.elements) },
    { name: "It chose", text: chosen, node: (row) => (study.choices.device.includes(row.chose) ? deviceNode(study, row.chose) : chosen(row)) },
    time("Measured", "chose_ns"), time("Predicted", "chose_predicted_ns"),
    { name: "Best by hand", text: (row) => row.best, node: (row) => deviceNode(study, row.best) },
    time("Measured there", "best_ns"), time("Predicted there", "best_predicted_ns"),
    { name: "Longer by", number: true, by: (row) => row.regret, text: (row) => percentText(row.regret) },
  ];
}

function choiceSection(study, choice, node) {
  const isChosen = (row) => choice.operation.has(row.operation) && choice.mode.has(row.mode) && choice.dtype.has(row.dtype);
  const runs = study.runs.filter((run) => choice.run.has(run.id));
  const rows = runs.flatMap((run) => (run.regret ? run.regret.rows : []).filter(isChosen).map((row) => ({ ...row, run })));
  const lines = choiceLines({ ...study, runs });
  if (rows.length > 0) {
    return replace(node, lines, sortableTable(choiceColumns(study), rows,
      "Where the automatic choice was wrong or slow: more than 5% over the best device by hand. With the same device in both columns the choice "
      + "was right, and the rest is noise or what choosing costs."));
  }
  const isMeasured = runs.some((run) => run.regret);
  return replace(node, lines, isMeasured && h("p", { class: "nothing good" }, "Of what is chosen above, nothing took more than 5% longer than on the best device by hand."));
}
