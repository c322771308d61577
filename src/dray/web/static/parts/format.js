// Figures and times as people read them.
const UNITS = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

// "3h", "2d"; as kubectl shows ages.
export function age(timestamp, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(timestamp)) / 1000);
  if (Number.isNaN(seconds)) return "";
  const [size, unit] = UNITS.find(([each]) => seconds >= each) || UNITS.at(-1);
  return `${Math.floor(seconds / size)}${unit}`;
}

export const count = (number, singular, plural = `${singular}s`) => `${number.toLocaleString("en")} ${number === 1 ? singular : plural}`;
export const percent = (part, whole) => (whole ? `${Math.round((100 * part) / whole)} %` : "–");
