// Figures and times as people read them.
const UNITS = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

// "3h", "2d"; as kubectl shows ages.
export function age(timestamp, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(timestamp)) / 1000);
  if (Number.isNaN(seconds)) return "";
  const [size, unit] = UNITS.find(([each]) => seconds >= each) || UNITS.at(-1);
  return `${Math.floor(seconds / size)}${unit}`;
}

export const figure = (number) => number.toLocaleString("en");
export const count = (number, singular, plural = `${singular}s`) => `${figure(number)} ${number === 1 ? singular : plural}`;
// "12 devices", or where not all are shown: "1,000 of 1,370 devices; add words to the filter to see others".
export const countShown = (shown, all, singular) => (shown < all
  ? `${figure(shown)} of ${count(all, singular)}; add words to the filter to see others` : count(shown, singular));

// With a capital at its beginning.
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// "14:05", or with the day if that is another one: "19 Nov, 14:05".
export function moment(timestamp, now = new Date()) {
  const at = new Date(timestamp);
  if (Number.isNaN(at.getTime())) return "";
  const time = { hour: "2-digit", minute: "2-digit" };
  const other = at.toDateString() !== now.toDateString();
  return at.toLocaleString("en-GB", other ? { day: "numeric", month: "short", ...time } : time);
}
