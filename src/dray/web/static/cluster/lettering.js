// Texts on a canvas, which has neither line breaks nor contrast of its own.
const SQUEEZE = 1.15;
const HALO = 0.7;

// Black or white, whichever can be read on a colour.
export function readable(colour) {
  const [red, green, blue] = colour.startsWith("#") ? [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)) : colour.match(/\d+/g).map(Number);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#000" : "#fff";
}

// A text within a width. Of a long one, the middle is left out: beginnings and ends of names tell nodes and pods apart.
// With a `halo`, a colour, the text can be read on a ground of several colours.
export function write(context, text, x, y, width, halo = "") {
  const part = (width * SQUEEZE) / context.measureText(text).width;
  const half = Math.max(1, Math.floor((text.length * part - 1) / 2));
  const shown = part < 1 ? `${text.slice(0, half)}…${text.slice(-half)}` : text;
  if (halo) {
    context.strokeStyle = halo;
    context.lineWidth = HALO;
    context.lineJoin = "round";
    context.strokeText(shown, x, y, width);
  }
  context.fillText(shown, x, y, width);
}
