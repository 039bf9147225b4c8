// Elements. Text from the data goes through here as text nodes and attribute values, never as markup.

const SVG_NAMES = "http://www.w3.org/2000/svg";

function furnish(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// An element of HTML; an attribute whose value is a function listens to the event of that name.
function h(tag, attributes, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

// An element of SVG.
function s(tag, attributes, ...children) {
  return furnish(document.createElementNS(SVG_NAMES, tag), attributes, children);
}

function replace(node, ...children) {
  node.replaceChildren();
  return furnish(node, {}, children);
}

function byId(id) {
  return document.getElementById(id);
}
