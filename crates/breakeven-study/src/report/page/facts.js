// What else a reader must know: what failed, which targets were met, how and on what it was measured.

const NOT_RUN = ["unsupported", "skipped"];

function failureRows(study, isMine) {
  return study.runs.flatMap((run) => run.cells.filter((cell) => !isTimed(cell) && isMine(cell)).map((cell) => ({ ...cell, run })));
}

function outcomeText(cell) {
  return cell.status === "ok" ? "no time" : cell.status;
}

function failureColumns(study) {
  return [
    { name: "Operation", text: (cell) => cell.operation },
    ...runColumn(study),
    { name: "Elements", number: true, by: (cell) => cell.elements, text: (cell) => countText(cell.elements) },
    { name: "Dtype", text: (cell) => cell.dtype },
    { name: "Device", node: (cell) => deviceNode(study, cell.device), text: (cell) => cell.device },
    { name: "Mode", short: true, text: (cell) => modeText(cell.mode) },
    { name: "Outcome", node: (cell) => h("span", { class: `status ${NOT_RUN.includes(cell.status) ? "not-run" : "bad"}` }, outcomeText(cell)), text: outcomeText },
    { name: "Why", text: (cell) => whyText(cell) || "no reason was recorded" },
  ];
}

// Failures stand here whatever is chosen above.
function failuresSection(study, node) {
  const failed = failureRows(study, (cell) => !NOT_RUN.includes(cell.status));
  const notRun = failureRows(study, (cell) => NOT_RUN.includes(cell.status));
  const told = (rows) => rows.filter((row) => !row.brief);
  const listed = (rows) => (told(rows).length === rows.length ? "Every one is listed, whatever is chosen above."
    : `${countText(told(rows).length)} are listed, whatever is chosen above; summary.csv has all.`);
  const caption = (rows, text) => `${plural(rows.length, "cell")} ${text}. ${listed(rows)}`;
  return replace(node,
    failed.length > 0 ? sortableTable(failureColumns(study), told(failed), caption(failed, "failed"))
      : h("p", { class: "nothing good" }, "Nothing failed: every cell that ran gave the right result."),
    notRun.length > 0 && h("details", {}, h("summary", {}, `${plural(notRun.length, "cell")} not run`),
      sortableTable(failureColumns(study), told(notRun), caption(notRun, "were not run"))));
}

function metText(target) {
  if (target.met === null || target.met === undefined) return ["unknown", "not measured"];
  return target.met ? ["met", "met"] : ["missed", "not met"];
}

function targetColumns(study) {
  const wanted = (target) => (target.wanted[0] === target.wanted[1] ? timesText(target.wanted[0])
    : `${threeDigits(target.wanted[0])} to ${timesText(target.wanted[1])}`);
  return [
    { name: "Who", text: (target) => target.who },
    ...runColumn(study),
    { name: "Claim", text: (target) => target.claim },
    { name: "Operation", text: (target) => target.operation },
    { name: "Wanted", number: true, by: (target) => target.wanted[0], text: wanted },
    { name: "Got", number: true, by: (target) => target.got ?? null, text: (target) => timesText(target.got) },
    { name: "Outcome", node: (target) => h("span", { class: `status ${metText(target)[0]}` }, metText(target)[1]), text: (target) => metText(target)[1] },
    { name: "Why", text: (target) => target.why },
  ];
}

function targetsSection(study, choice, node) {
  const targets = study.runs.filter((run) => choice.run.has(run.id)).flatMap((run) => (run.targets || []).map((target) => ({ ...target, run })));
  if (targets.length === 0) return replace(node, h("p", { class: "nothing" }, "No claim was held against this data."));
  const isAnswered = (target) => metText(target)[0] !== "unknown";
  const [answered, open] = [targets.filter(isAnswered), targets.filter((target) => !isAnswered(target))];
  return replace(node,
    answered.length > 0 ? sortableTable(targetColumns(study), answered, "Claims of others, held against the rows of this report.")
      : h("p", { class: "nothing" }, "No row of this report answers a claim of others: it has other operations, sizes or devices."),
    open.length > 0 && h("details", {}, h("summary", {}, `${plural(open.length, "claim")} that no row answers`),
      sortableTable(targetColumns(study), open, "What would have to be measured stands in each claim.")));
}

function known(value) {
  return value === null || value === undefined || value === "" ? "not known" : String(value);
}

function pairs(list) {
  return h("dl", { class: "facts" }, list.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function environmentFacts(environment) {
  const virtual = { true: "yes", false: "no" }[String(environment.virtual)] || "not known";
  return [
    ["CPU", known(environment.cpu)],
    ["Cores and threads", `${known(environment.cores)} cores, ${known(environment.threads)} threads used`],
    ["Instructions", known(environment.isa)],
    ["Memory", environment.memory_bytes > 0 ? bytesText(environment.memory_bytes) : "not known"],
    ["System", `${known(environment.os)}, kernel ${known(environment.kernel)}`],
    ["Governor", known(environment.governor)],
    ["Virtual machine", virtual],
  ];
}

function noiseFacts(run) {
  const count = (test) => run.cells.filter(test).length;
  const timed = count(isTimed);
  return [
    ["Verdict", h("span", { class: `status ${run.noise.verdict}` }, run.noise.verdict)],
    ["Same code against itself", isNumber(run.noise.floor) ? percentText(run.noise.floor) : "not known"],
    ["Drift of the sentinel", percentText(run.noise.sentinel_drift)],
    ["Beside other work", run.noise.contention_watched ? plural(run.noise.contended, "row") : "not watched"],
    ["Dropped as throttled", run.noise.throttled > 0 || run.noise.throttling_watched ? plural(run.noise.throttled, "sample") : "not watched"],
    ["Not steady", `${count((cell) => cell.warm_up === "drift")} drifting and ${count((cell) => cell.warm_up === "bimodal")} bimodal of ${plural(timed, "cell")}`],
    ["Ended by budget", `${count((cell) => cell.stop === "budget")} of ${plural(timed, "cell")}`],
    ["Doubtful", `${count((cell) => (cell.flags || []).length > 0)} of ${plural(run.cells.length, "cell")}`],
  ];
}

function clocksText(hz) {
  const texts = unique((hz || []).map((one) => rateText(one, "Hz")));
  return texts.length > 0 ? texts.join(" to ") : "not told";
}

function celsiusText(celsius) {
  return isNumber(celsius) ? `${threeDigits(celsius)} °C` : "not told";
}

// Clocks from the lowest to the highest, the hottest temperature, and what could not be read.
function sensedFacts(run) {
  const { readings = 0, cpu_hz: cores, celsius, throttlings, gpus = [], absent = [] } = run.sensed || {};
  if (readings === 0) return [["Clocks and temperatures", "not known"]];
  return [
    ["Clocks of the cores", clocksText(cores)],
    ["Hottest", celsiusText(celsius)],
    ...(isNumber(throttlings) ? [["Counts of lowered clocks", `rose by ${countText(throttlings)}`]] : []),
    ...gpus.map((gpu) => [gpu.name, `${clocksText(gpu.hz)}, at the hottest ${celsiusText(gpu.celsius)}`]),
    ...(absent.length > 0 ? [["Could not be read", `${listText(absent)}: the system has no file of it (only Linux has such files, most virtual machines show no sensors, and NVIDIA’s driver none of a GPU)`]] : []),
  ];
}

function runFacts(run) {
  const { manifest } = run;
  return [
    ["Run", h("code", {}, run.id)],
    ["Data", run.source],
    ["Started", known(manifest.started)],
    ["Version", known(manifest.version)],
    ["Arguments", h("code", {}, (manifest.arguments || []).join(" ") || "none")],
    ...(run.resumed || []).map((by) => [`Gone on with ${by.started}`, h("code", {}, by.arguments.join(" "))]),
    ["Seed", known(manifest.seed)],
    ["Fingerprint", h("code", {}, known(manifest.fingerprint))],
  ];
}

function deviceColumns(study) {
  const ceiling = (name, unit) => (device) => rateText(device.ceiling && device.ceiling[name], unit);
  const key = (name) => (device) => (device.ceiling ? device.ceiling[name] : null);
  const rate = (name, field, unit) => ({ name, number: true, by: key(field), text: ceiling(field, unit) });
  return [
    { name: "Name", node: (device) => deviceNode(study, device.name), text: (device) => device.name },
    { name: "Device", text: (device) => known(device.device) },
    { name: "Kind", text: (device) => known(device.kind) },
    { name: "Backend", text: (device) => known(device.backend) },
    { name: "Driver", text: (device) => known(device.driver) },
    rate("Arithmetic", "flops", "FLOP/s"), rate("Memory", "bytes_per_s", "B/s"),
    rate("Upload", "upload_bytes_per_s", "B/s"), rate("Read back", "read_bytes_per_s", "B/s"),
  ];
}

// Every device that is listed, ran cells or has a ceiling.
function deviceRows(run) {
  const ceilings = run.ceilings || [];
  const names = unique([...devicesOf(run), ...ceilings.map((ceiling) => ceiling.device)]);
  return names.map((name) => ({
    ...((run.manifest.environment.devices || []).find((device) => device.name === name) || { name, device: hardwareOf(run, name) }),
    ceiling: ceilings.find((ceiling) => ceiling.device === name),
  }));
}

function runSection(study, choice, node) {
  return replace(node, study.runs.filter((run) => choice.run.has(run.id)).map((run) => h("div", { class: "about" },
    study.runs.length > 1 && h("h3", {}, runName(run)),
    h("div", { class: "columns" },
      h("section", {}, h("h4", {}, "Run"), pairs(runFacts(run))),
      h("section", {}, h("h4", {}, "Machine"), pairs(environmentFacts(run.manifest.environment))),
      h("section", {}, h("h4", {}, "Noise"), pairs([...noiseFacts(run), ...sensedFacts(run)]))),
    sortableTable(deviceColumns(study), deviceRows(run), "Devices, and the most that each reached in this run."))));
}
