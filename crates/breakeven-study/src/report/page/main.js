// The page itself: its sections in order, drawn anew whenever the choice or the width changes.

const PRINTED_PANEL_WIDTH = 330;

const SECTIONS = [
  {
    id: "curves", title: "Time against size", grid: true, draw: curvesSection,
    caption: "The line is the lower quartile, the time that every verdict goes by. Dots are raw samples, moved sideways where they would lie on each other. The dark band reaches to the median, "
      + "the pale one from the fastest sample to where nine of ten were done (to the median below 50 samples). "
      + "A shaded strip is the 95% interval of a crossing, a cross a cell that failed.",
  },
  { id: "break-even", title: "Break-even points", draw: breakEvenSection },
  { id: "choice", title: "Breakeven’s own choice", when: (study) => study.runs.some(choiceText), draw: choiceSection },
  { id: "winners", title: "Fastest run at each size", when: (study) => study.runs.length > 1, draw: winnersSection },
  {
    id: "parts", title: "Where the time goes", grid: true, draw: barsSection,
    caption: "Lower quartile of each part, as measured in calls that were taken apart step by step, which takes longer than a whole call: a bar may be longer than its time. "
      + "What was not measured is said, never estimated.",
  },
  {
    id: "roofline", title: "Against the ceilings", grid: true, draw: roofSection,
    caption: "How near each cell comes to the most that its device reached: to arithmetic, memory, or the way between host and device.",
  },
  {
    id: "predicted", title: "Predicted and measured", grid: true, draw: scatterSection,
    caption: "On the line the profile foretold the time exactly; the shaded part is within 1.25 times.",
  },
  { id: "failures", title: "What failed", draw: (study, _, node) => failuresSection(study, node) },
  { id: "targets", title: "Targets", draw: targetsSection },
  { id: "run", title: "How it was measured", draw: runSection },
  { id: "cells", title: "All cells", folded: true, draw: cellsSection },
];

// Some sections have something to say about several runs only.
function sectionsOf(study) {
  return SECTIONS.filter(({ when }) => !when || when(study));
}

function sectionNode({ id, title, caption, grid, folded }) {
  const body = h("div", { class: grid ? "grid" : "body", id: `${id}-body` });
  const content = [caption && h("p", { class: "caption" }, caption), folded ? h("details", {}, h("summary", {}, "Show the table"), body) : body];
  return h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title`, tabindex: -1 }, title), content);
}

// Links would take the place of the choice in the address, so these are buttons.
function contents(study) {
  const go = (id) => () => {
    byId(id).scrollIntoView();
    byId(`${id}-title`).focus({ preventScroll: true });
  };
  return h("nav", { "aria-label": "Contents" }, sectionsOf(study).map(({ id, title }) => h("button", { type: "button", click: go(id) }, title)));
}

function subtitle(study) {
  const run = study.runs[0];
  if (study.runs.length !== 1) return `${plural(study.runs.length, "run")} side by side, never pooled`;
  const names = study.choices.device.map((device) => hardwareOf(run, device)).filter(Boolean);
  return [listText(unique(names)), run.manifest.started && run.manifest.started.slice(0, 10), `version ${run.manifest.version}`].filter(Boolean).join(" · ");
}

function pageNodes(study, choice, changed) {
  return [
    h("header", { class: "top" }, h("div", {}, h("h1", {}, "Break-even study"), h("p", { class: "subtitle" }, subtitle(study))), themeToggles(choice, changed)),
    banners(study), softwareBanner(study), noiseBanner(study),
    h("main", {},
      h("section", { id: "answer", "aria-label": "The answer" }, h("div", { id: "answer-body" })),
      h("div", { id: "controls", role: "region", "aria-label": "What is shown" }, makeControls(study, choice, changed)),
      contents(study), sectionsOf(study).map(sectionNode)),
    h("div", { id: "tip", role: "tooltip", hidden: true }),
    h("p", { id: "say", class: "unseen", "aria-live": "polite" }),
  ];
}

function drawAll(study, choice, fixedWidth) {
  hideTip();
  answerSection(study, choice, byId("answer-body"));
  for (const { id, draw, folded } of sectionsOf(study)) {
    const body = byId(`${id}-body`);
    // Thousands of rows that nobody looks at would make every toggle slow.
    if (folded && !body.parentElement.open) body.replaceChildren();
    else draw(study, choice, body, fixedWidth);
    body.style.setProperty("--column", choice.run.size > 2 ? "340px" : "480px");
  }
}

// On paper everything is open, and charts are drawn for its width.
function preparePrinting(redraw) {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const details of opened) details.open = true;
    redraw(PRINTED_PANEL_WIDTH);
    for (const details of document.querySelectorAll("details:not([open])")) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
    redraw();
  });
}

function main() {
  const study = makeStudy(readSummary());
  const choice = choiceFromHash(study, location.hash);
  const redraw = (fixedWidth) => drawAll(study, choice, fixedWidth);
  const changed = () => {
    pressToggles(study, choice);
    keepInAddress(study, choice);
    redraw();
  };
  replace(byId("page"), pageNodes(study, choice, changed));
  pressToggles(study, choice);
  redraw();
  addEventListener("hashchange", () => {
    Object.assign(choice, choiceFromHash(study, location.hash));
    pressToggles(study, choice);
    redraw();
  });
  byId("cells").addEventListener("toggle", () => cellsSection(study, choice, byId("cells-body")), true);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    requestAnimationFrame(() => redraw());
  });
  preparePrinting(redraw);
}

try {
  main();
} catch (error) {
  replace(byId("page"), h("p", { class: "banner", role: "alert" }, h("strong", {}, "This report cannot be shown."), ` ${error.message}`));
  throw error;
}
