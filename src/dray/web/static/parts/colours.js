// Colours that people with any common colour blindness can tell apart, on light and on dark ground. They never carry a
// meaning alone: legends, labels or patterns say the same. Vermilion (#d55e00) is left out: it is for what is wrong.
export const CATEGORIES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#9030f0", "#7a3518"];

// For short lists: colours in order, none twice before all were used.
export const colourAt = (place) => CATEGORIES[place % CATEGORIES.length];

export const STATES = {
  free: { colour: "#9db4c0", title: "free" },
  allocated: { colour: "#0072b2", title: "allocated" },
  shared: { colour: "#56b4e9", title: "shared" },
  blocked: { colour: "#5f5750", title: "blocked" },
  tainted: { colour: "#d55e00", title: "tainted" },
  unknown: { colour: "#7d7d86", title: "unknown" },
};

// Numbers from 0 to 1, from dark blue to yellow: the steps differ in lightness as well (after cividis).
const STEPS = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 183, 100], [254, 232, 56]];

export function sequential(value) {
  const at = Math.min(Math.max(value, 0), 1) * (STEPS.length - 1);
  const below = Math.min(Math.floor(at), STEPS.length - 2);
  const mix = STEPS[below].map((low, place) => Math.round(low + (STEPS[below + 1][place] - low) * (at - below)));
  return `rgb(${mix.join(" ")})`;
}
