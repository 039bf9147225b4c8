// What the summary says, put in order: runs, devices, modes, and the cells of each chart.

const SCHEMA_MAJOR = "breakeven.summary/1";
const MODE_NAMES = {
  host: "host to host",
  resident: "resident",
  first: "first call",
  cold: "cold start",
  upload: "host to device",
  copy: "copies only",
  kernel: "kernel only",
};
const MODE_MEANINGS = {
  host: "Data starts and ends in the host's memory: both copies are part of the time.",
  resident: "Data already lies on the device and stays there.",
  first: "Compiled, but without buffers yet.",
  cold: "A new process: start, compilation and buffers are part of the time.",
  upload: "Data starts in the host's memory and stays on the device.",
  copy: "Only the copies.",
  kernel: "Only the kernel, as the device itself times it.",
};
const PARTS = ["allocate", "upload", "dispatch", "kernel", "read", "wait"];

function readSummary() {
  const summary = JSON.parse(byId("summary").textContent);
  const schema = String(summary.schema);
  if (schema !== SCHEMA_MAJOR && !schema.startsWith(`${SCHEMA_MAJOR}.`)) {
    throw new Error(`This page reads ${SCHEMA_MAJOR}, and the data is ${schema}.`);
  }
  // A large page leaves out what follows from the rest.
  for (const cell of summary.runs.flatMap((run) => run.cells)) cell.shape ??= String(cell.elements);
  return summary;
}

function modeText(mode) {
  const [family, number] = mode.split("-");
  if (family === "chain") return `chain of ${number}`;
  if (family === "idle") return `after ${number} ms of rest`;
  return MODE_NAMES[mode] || mode;
}

function modeMeaning(mode) {
  const [family, number] = mode.split("-");
  if (family === "chain") return `${number} operations in a row without reading between.`;
  if (family === "idle") return `Host to host, after the device was left alone for ${number} ms.`;
  return MODE_MEANINGS[mode] || "";
}

function modeRank(mode) {
  const rank = Object.keys(MODE_NAMES).indexOf(mode);
  return rank < 0 ? 99 : rank;
}

function unique(values) {
  return [...new Set(values)];
}

// Whether a device of a run is a CPU.
function isCpu(run, device) {
  const entry = (run.manifest.environment.devices || []).find((entry) => entry.name === device);
  return device === "cpu" || Boolean(entry && entry.kind === "cpu") || run.break_even.some((row) => row.cpu === device);
}

function isSoftware(run, device) {
  return (run.manifest.environment.devices || []).some((entry) => entry.name === device && entry.kind === "software");
}

// The devices that the environment or the cells of a run name.
function devicesOf(run) {
  const listed = (run.manifest.environment.devices || []).map((device) => device.name);
  return unique([...listed, ...run.cells.map((cell) => cell.device)]);
}

// All that the page needs to know about the runs together.
function makeStudy(summary) {
  const runs = summary.runs;
  const cells = runs.flatMap((run) => run.cells);
  const items = [...cells, ...runs.flatMap((run) => run.break_even)];
  const all = (name) => unique(items.map((item) => item[name]));
  const devices = unique(runs.flatMap(devicesOf));
  const cpus = devices.filter((name) => runs.some((run) => isCpu(run, name)));
  const gpus = devices.filter((name) => !cpus.includes(name));
  return {
    runs,
    cpus,
    gpus,
    choices: {
      run: runs.map((run) => run.id),
      device: [...cpus, ...gpus].filter((name) => cells.some((cell) => cell.device === name)),
      mode: all("mode").sort((a, b) => modeRank(a) - modeRank(b) || a.localeCompare(b, "en", { numeric: true })),
      dtype: all("dtype"),
      operation: all("operation"),
    },
  };
}

// The colour and marker of a device, as a number: the CPU has the first, GPUs the others in order.
function lookOf(study, device) {
  const at = study.gpus.indexOf(device);
  return at >= 0 ? 1 + (at % 4) : study.cpus.indexOf(device) > 0 ? 5 : 0;
}

// What the device is, where the run says so: `NVIDIA H200`.
function hardwareOf(run, device) {
  const { cpu, devices } = run.manifest.environment;
  const entry = (devices || []).find((entry) => entry.name === device);
  return (isCpu(run, device) && cpu) || (entry && entry.device) || "";
}

// The finding of a row as it reads in a page, where nobody said before what there is none of.
function verdictText(row) {
  return row.verdict.replace(/^none in /, "no break-even in ");
}

// What a device is called where there is room for it.
function deviceText(device) {
  return device === "auto" ? "auto, breakeven’s own choice" : device;
}

function isTimed(cell) {
  return cell.status === "ok" && isNumber(cell.q1_ns) && cell.q1_ns > 0;
}

// Groups of what is chosen, one for each chart: operation, then mode, dtype and run.
function groupsOf(study, choice, items) {
  const groups = [];
  for (const operation of study.choices.operation.filter((name) => choice.operation.has(name))) {
    for (const mode of study.choices.mode.filter((name) => choice.mode.has(name))) {
      for (const dtype of study.choices.dtype.filter((name) => choice.dtype.has(name))) {
        for (const run of study.runs.filter((run) => choice.run.has(run.id))) {
          const mine = items(run).filter((item) =>
            item.operation === operation && item.mode === mode && item.dtype === dtype);
          if (mine.length > 0) groups.push({ operation, mode, dtype, run, items: mine });
        }
      }
    }
  }
  return groups;
}

// The groups of cells of the devices that are chosen.
function cellGroups(study, choice) {
  return groupsOf(study, choice, (run) => run.cells.filter((cell) => choice.device.has(cell.device)));
}

// The groups of break-even rows between devices that are chosen.
function rowGroups(study, choice) {
  return groupsOf(study, choice, (run) =>
    run.break_even.filter((row) => choice.device.has(row.gpu) && choice.device.has(row.cpu)));
}
