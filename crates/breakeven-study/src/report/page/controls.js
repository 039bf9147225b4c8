// What is chosen: toggles for runs, devices, modes, dtypes and operations, and the theme; all kept in the address.

const GROUP_TITLES = { run: "Run", device: "Device", mode: "Mode", dtype: "Dtype", operation: "Operation" };
// More toggles than these are folded away.
const FEW = 8;
const THEMES = ["auto", "light", "dark"];

// What is shown when the address says nothing: everything, but of modes and dtypes only the first.
function defaultChoice(study) {
  const choice = { theme: "auto" };
  for (const [name, values] of Object.entries(study.choices)) choice[name] = new Set(values);
  for (const [name, wanted] of [["mode", "host"], ["dtype", "f32"]]) {
    const values = study.choices[name];
    choice[name] = new Set(values.includes(wanted) ? [wanted] : values.slice(0, 1));
  }
  return choice;
}

// The choice that the address holds; unknown names are passed over.
function choiceFromHash(study, hash) {
  const choice = defaultChoice(study);
  for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (name === "theme" && THEMES.includes(text)) choice.theme = text;
    const values = study.choices[name];
    if (values) choice[name] = new Set(text.split("|").map(decodeURIComponent).filter((value) => values.includes(value)));
  }
  return choice;
}

// What differs from the default, as it stands in the address.
function hashOfChoice(study, choice) {
  const usual = defaultChoice(study);
  const query = new URLSearchParams();
  for (const [name, values] of Object.entries(study.choices)) {
    const text = (set) => values.filter((value) => set.has(value)).map(encodeURIComponent).join("|");
    if (text(choice[name]) !== text(usual[name])) query.set(name, text(choice[name]));
  }
  if (choice.theme !== "auto") query.set("theme", choice.theme);
  return query.toString();
}

function keepInAddress(study, choice) {
  const hash = hashOfChoice(study, choice);
  if (hash !== location.hash.replace(/^#/, "")) history.replaceState(null, "", `#${hash}`);
}

function toggle(name, value, content, hint, onToggle) {
  return h("button", { type: "button", class: "toggle", "aria-pressed": "false", "data-group": name, "data-value": value, title: hint, click: onToggle }, content);
}

function toggleGroup(study, choice, name, changed) {
  const values = study.choices[name];
  const flip = (value) => () => {
    if (!choice[name].delete(value)) choice[name].add(value);
    changed();
  };
  const setAll = (set) => () => {
    choice[name] = new Set(set);
    changed();
  };
  const content = (value) => {
    if (name === "device") return [markerIcon(lookOf(study, value)), value];
    return name === "mode" ? modeText(value) : value;
  };
  const hint = (value) => {
    if (name === "mode") return modeMeaning(value);
    return name === "device" ? unique(study.runs.map((run) => hardwareOf(run, value)).filter(Boolean)).join("; ") : null;
  };
  const quick = values.length > 3 && h("span", { class: "quick" },
    h("button", { type: "button", "data-group": name, "data-all": "true", "aria-label": `${GROUP_TITLES[name]}: all`, click: setAll(values) }, "all"),
    h("button", { type: "button", "data-group": name, "data-none": "true", "aria-label": `${GROUP_TITLES[name]}: none`, click: setAll([]) }, "none"));
  const buttons = h("div", { class: "buttons" }, values.map((value) => toggle(name, value, content(value), hint(value), flip(value))), quick);
  const title = h("span", { class: "name", id: `group-${name}` }, GROUP_TITLES[name]);
  if (values.length > FEW) {
    return h("details", { class: "group many", role: "group", "aria-labelledby": `group-${name}` },
      h("summary", {}, title, h("span", { class: "count", "data-count": name })), buttons);
  }
  return h("div", { class: "group", role: "group", "aria-labelledby": `group-${name}` }, title, buttons);
}

// The theme's buttons stand apart from the others, and only one is pressed.
function themeToggles(choice, changed) {
  return h("div", { class: "themes", role: "group", "aria-label": "Theme" }, THEMES.map((theme) =>
    toggle("theme", theme, theme, null, () => {
      choice.theme = theme;
      changed();
    })));
}

function makeControls(study, choice, changed) {
  const groups = Object.keys(GROUP_TITLES).filter((name) => study.choices[name].length > 1 || (name === "device" && study.choices[name].length > 0));
  return groups.map((name) => toggleGroup(study, choice, name, changed));
}

// Shows on all buttons what is chosen.
function pressToggles(study, choice) {
  for (const count of document.querySelectorAll("[data-count]")) {
    const name = count.dataset.count;
    count.textContent = `${choice[name].size} of ${study.choices[name].length}`;
  }
  for (const button of document.querySelectorAll("button.toggle")) {
    const { group, value } = button.dataset;
    const isOn = group === "theme" ? choice.theme === value : choice[group].has(value);
    button.setAttribute("aria-pressed", String(isOn));
  }
  document.documentElement.dataset.theme = choice.theme;
}
