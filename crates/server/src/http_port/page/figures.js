// Numbers and times as people read them, and elements of the page. Texts go into text nodes alone: digests, names and addresses are
// somebody else's.

const SVG = "http://www.w3.org/2000/svg";

/** An element; what is given as a child is a text or another element. Names that begin with "on" are listeners. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Likewise, of a picture. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

/** A whole number with its thousands apart; a fraction where it is small. */
export function count(number) {
  if (!Number.isFinite(number)) return "–";
  if (Math.abs(number) < 10 && !Number.isInteger(number)) return number.toFixed(1);
  return Math.round(number).toLocaleString("en-US");
}

/** Shortened, for axes: 12k. */
export function short(number) {
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(number) >= size) return `${+(number / size).toPrecision(3)}${unit}`;
  }
  return `${+number.toPrecision(3)}`;
}

/** Microseconds. */
export function time(us) {
  if (!Number.isFinite(us)) return "–";
  const units = [[86400e6, "d"], [3600e6, "h"], [60e6, "min"], [1e6, "s"], [1e3, "ms"]];
  for (const [size, unit] of units) {
    if (us >= size) return `${+(us / size).toPrecision(us / size >= 100 ? 3 : 2)}\u00a0${unit}`;
  }
  return `${Math.round(us)}\u00a0µs`;
}

export function bytes(number) {
  if (!Number.isFinite(number)) return "–";
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (number >= size) return `${+(number / size).toPrecision(3)}\u00a0${unit}`;
  }
  return `${number}\u00a0B`;
}

/** A share of 1, as percent. */
export function percent(share) {
  return Number.isFinite(share) ? `${Math.round(100 * share)}\u00a0%` : "–";
}

/** By its unit, as columns of samples and limits name it. */
export function figure(number, unit) {
  if (number === null || number === undefined) return "–";
  switch (unit) {
    case "us": return time(number);
    case "ms": return time(number * 1e3);
    case "s": return time(number * 1e6);
    case "bytes": return bytes(number);
    case "share": return percent(number);
    case "percent": return `${number} %`;
    case "/s": return `${count(number)}/s`;
    default: return count(number);
  }
}

/** The time of day of milliseconds since 1970, in UTC. */
export function clock(ms, seconds = true) {
  const text = new Date(ms).toISOString();
  return text.slice(11, seconds ? 19 : 16);
}

/** `1 client`, `2 clients`. */
export function counted(number, thing) {
  return `${count(number)} ${thing}${number === 1 ? "" : "s"}`;
}
